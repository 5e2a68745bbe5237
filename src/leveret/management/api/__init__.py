"""The routes of the HTTP API, one small file for each kind of thing."""
