"""What the patterns that need a database share: table names, errors, and how SQLite and PostgreSQL are reached.

Used by `leveret.client.idempotent` and `leveret.client.outbox`; nothing of AMQP is in here. psycopg is imported only by
the files whose names begin with postgres."""
