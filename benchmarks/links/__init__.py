"""How fast a shovel moves a queue, beside RabbitMQ's."""
