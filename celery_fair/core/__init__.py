"""The algorithms: pure, synchronous, with time as an argument.

Nothing in this package sleeps, logs, starts threads, reads a clock or talks to a broker.
"""
