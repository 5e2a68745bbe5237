"""Webhooks: alerts that are posted to somebody on call."""
