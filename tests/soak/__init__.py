"""Workers that run for long among connections that flap and queues that come and go: none grows.

`posts` has the workers and what is done to them in a cycle, `figures` what is counted after it, and
the rule by which a figure grows.
"""
