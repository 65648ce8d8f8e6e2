"""A queue on Redis that is shared by key: lists for the keys, and scripts that keep their order.

::

    publishing.py  publishers that sort their messages at once
    scripts.py     what workers ask and tell,
    lists.py       and commands
    store.py       a Redis that is asked where the messages are on another broker; report.lua
    tags.lua       whose turn it is, and what is kept under which name; comes before each of these:
    put.lua        a message goes into its key's list at once
    limits.lua     what a tenant may start now: a pause, a cap, a leash; comes before the next five
    take.lua       take a message, so that it is recorded; comes before the next one
    pop.lua        sort some messages, take some
    leave.lua      messages have their places no longer
    renew.lua      those that run still have theirs
    look.lua       who waits
    adopt.lua      lists that no tag is kept of
    merge.lua      all back into the queue's own list
"""
