"""The command line of operators: it speaks to a broker by its management API, here or far away, and knows nothing of
the broker's insides."""
