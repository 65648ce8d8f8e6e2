"""Queues as an app knows them (`declared`), and the way out of what it publishes (`sender`)."""
