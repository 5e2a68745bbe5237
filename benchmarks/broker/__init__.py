"""A running broker under load, side by side with RabbitMQ in one run. Started by `make bench`."""
