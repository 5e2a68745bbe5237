"""Names of hosts and services: the system's resolver for addresses, and questions for SRV records, which it has not."""
