"""What is done, and to whom.

A function is given a `Run` and returns when the damage is done and its cause is over.
"""
