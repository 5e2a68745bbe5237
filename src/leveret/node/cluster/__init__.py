"""The commands of a cluster. `leveret serve` does not run in one yet: these make and distribute its credentials."""
