"""What Prometheus scrapes: the broker's numbers as text, under RabbitMQ's names where RabbitMQ has them."""
