"""A day of a shop, for whoever wants to see the pipeline at work."""
