"""A queue that is shared by key, on each kind of broker.

`by_key` is what a worker asks of whatever chooses by key. Two do:

=========  ==========================================================  ===========================
`redis`    on Redis: the server's scripts, for all workers             exactly
`lanes`    on RabbitMQ: a front and lanes, by each worker's own tags   in the long run; with a store
                                                                       of keys soon, and limits
                                                                       exactly
=========  ==========================================================  ===========================

`lane_watch` knows which lanes have messages, `spare_lanes` sees to those that a key keeps closed
which may start nothing, `store` asks and tells the store, `key_slots` are those of capped keys.
"""
