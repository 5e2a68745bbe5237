"""What survives: the log of messages in segments, the catalog's log, group commit, recovery, reclaim and cold reads."""
