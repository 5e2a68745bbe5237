"""The node's settings: each declared once, with its bounds and its description, and where their values come from."""
