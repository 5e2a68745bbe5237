"""What operators and their tools touch: the HTTP API and the metrics."""
