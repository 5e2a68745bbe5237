"""Why a session may be suspended: bits of a set, because several reasons can hold at once."""

# Others have their turn, or the client does not read its answers.
FOR_TURN = 1
# Its password is being checked.
FOR_LOGIN = 2
# It publishes while the broker is short of memory or disk.
FOR_ALARM = 4
# The message it asked for is on its way from disk.
FOR_LOAD = 8
# The disk is far behind, and the rest of a chunk would complete messages for it.
FOR_DISK = 16
# What it purged is so much that it is let go in several turns.
FOR_PURGE = 32
