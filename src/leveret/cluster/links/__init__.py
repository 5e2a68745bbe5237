"""The transport between nodes: frames, the handshake, connections that come back, and questions with answers."""
