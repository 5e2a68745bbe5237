"""What is measured while messages run: sizes and waits, work done, taps."""
