"""The tables as one page that a person likes to look at."""
