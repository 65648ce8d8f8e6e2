"""py-amqp's connection: its channels, what is read from its socket, and what is written."""
