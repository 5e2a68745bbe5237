"""The files of streams: segments, indexes, reading, recovery, looking into them. Their face is storage.streams."""
