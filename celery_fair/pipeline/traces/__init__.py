"""Traces for replays, from the warehouse or from others' logs, in one schema.

id           of the message
queue        that it was published to
task         the task's name
cost_key     what its run time may depend on, or null
published    when, in seconds
runtime      for how many seconds it held a slot
"""
