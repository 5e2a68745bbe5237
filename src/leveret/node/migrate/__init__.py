"""From RabbitMQ's configuration and definitions to ours: what can be taken over, and what becomes of the rest."""
