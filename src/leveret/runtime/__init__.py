"""The only door to the world: clock, dice, network, tasks. Everybody else gets them handed in."""
