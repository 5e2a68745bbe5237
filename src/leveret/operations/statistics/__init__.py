"""What operators look at: totals of the node that never go down, and how the numbers of each object went lately."""
