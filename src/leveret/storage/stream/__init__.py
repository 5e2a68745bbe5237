"""The files of streams: segments and indexes, reading, recovery, and looking into them. Their face is storage.streams."""
