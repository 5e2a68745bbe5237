"""The broker itself: declares, publishes and deletes on behalf of sessions, and performs what the machines
ask for."""
