"""Which bindings of an exchange a message matches, one matcher for each kind of exchange."""
