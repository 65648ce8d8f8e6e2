"""A queue that is shared by key, on each kind of broker.

`by_key` is what a worker asks of whatever chooses by key. Three do:

=================  =====================================================  ========================
`redis`            on Redis: the server's scripts, for all workers        all workers, exactly
`lanes`            on RabbitMQ: a front and lanes, by tags of its own     this worker
`shared`           the same with a store of keys: workers tell each       all workers, soon; and
                   other what they serve, and keys may be limited         limits, exactly
=================  =====================================================  ========================

`lane_watch` knows which lanes have messages, `spare_lanes` sees to those that a key keeps closed
which may start nothing, `store` asks and tells the store, `key_slots` are those of capped keys.
"""
