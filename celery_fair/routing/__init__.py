"""Queues as an app knows them: those of the settings (`declared`), and logical ones (`logical`)."""
