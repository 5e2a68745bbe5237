"""Webhooks: alerts that are posted to HTTP endpoints."""
