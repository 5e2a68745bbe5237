"""Reading streams and super streams, and storing how far a reader is."""
