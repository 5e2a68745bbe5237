"""SQL over live streams, queues and the lake."""
