"""Shares of a worker, measured on real brokers by what its tasks recorded.

A sample is taken while every queue is backlogged and after the windows have
filled, covers a whole number of the scheduler's rounds, and has soft edges
(see `sample.py`), so that the limits are about the worker and not about where
the sample was cut.
"""
