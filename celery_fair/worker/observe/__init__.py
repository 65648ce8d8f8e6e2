"""What is told of a worker: to operators (`control`, `answers`), to Prometheus (`metrics`), and to
the event log (`recorder`, `queue_states`, `queue_settings`).
"""
