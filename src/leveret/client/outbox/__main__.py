"""`python -m leveret.client.outbox`: the relay as a process."""

from leveret.client.outbox.process import main

if __name__ == "__main__":
    raise SystemExit(main())
