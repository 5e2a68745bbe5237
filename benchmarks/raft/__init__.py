"""What the consensus engine costs."""
