"""The choice: whose turn it is, what that costs, and how many messages of each queue are held here.

`dispatcher` is the main loop; the rules are `celery_fair.core.chooser`'s. `gates` and
`cluster_leash` are what may keep a queue from starting, `cost` and `runtimes` its prices, `sizing`
its window; `served` and `observed` count.
"""
