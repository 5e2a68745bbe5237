"""What carries everything else: one connection to a broker, its channels, and when to connect again."""
