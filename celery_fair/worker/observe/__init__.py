"""What is told of a worker, and changes nothing of it: to operators (`answers`), to Prometheus
(`metrics`, with its `figures`), and to the event log (`recorder`, `queue_states` and
`queue_settings`).
"""
