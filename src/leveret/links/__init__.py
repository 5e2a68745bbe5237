"""Links between brokers: shovels, which move messages one way, and federation of exchanges and queues.

Built on the client library; reads parameters and policies from the broker's catalog. Opened and closed by the node."""
