"""Reprocessing: jobs that move messages out of a queue, back to where they died or elsewhere, and the schedule for dead
letters."""
