"""Who a client is and what it may do: logins, tokens, permissions, limits, and the audit log."""
