"""Why a session may be suspended: bits of a set, because several reasons can hold at once."""

# Others have their turn, or the client does not read its answers.
FOR_TURN = 1
# Its password is being checked.
FOR_LOGIN = 2
# It publishes while the broker is short of memory or disk.
FOR_ALARM = 4
# The message it asked for is on its way from disk.
FOR_LOAD = 8
