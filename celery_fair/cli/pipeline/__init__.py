"""``fair pipeline``: the commands over the event logs. Each loads Spark when it is used."""
