"""What we tell tools that look for RabbitMQ: whose interfaces ours are like."""

from typing import Final

# The series whose HTTP API and metrics are meant. Stream clients are told an older one, see session.stream.
RABBITMQ_VERSION: Final = "4.3.0"
