"""The ground that every route of the HTTP API stands on: requests, rights, lists, errors."""
