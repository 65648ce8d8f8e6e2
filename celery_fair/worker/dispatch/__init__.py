"""The choice: whose turn it is, what that costs, and how many messages of each queue are held here.

`dispatcher` is the main loop; the rules are `celery_fair.core.chooser`'s. `gates` are what may keep
a queue from starting, `prices` what its messages cost, `sizing` its window; `served` counts, and
`orders` are what is changed while the worker runs.
"""
