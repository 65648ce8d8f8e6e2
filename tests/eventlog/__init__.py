"""The event log: files, and what workers write."""
