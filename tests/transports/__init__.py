"""What kombu has a transport for, beside RabbitMQ and Redis."""
