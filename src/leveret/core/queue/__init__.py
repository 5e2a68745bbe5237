"""The queue machine: its contract, what is ready, what is delayed, rules, deduplication."""
