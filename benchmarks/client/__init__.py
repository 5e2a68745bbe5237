"""Client libraries side by side on one broker: this project's own, aio-pika and pika."""
