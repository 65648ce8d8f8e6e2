"""What an operator does to an app: a function for each thing, called by commands and the page.

A function takes the app, or what asks its workers, and returns data. It prints nothing, and knows
neither a command line nor a browser; what cannot be done it raises, with what to do, as an
`errors.OperateError`::

    errors.py        what went wrong, and what was asked for that cannot be meant
    text.py          text that people write, and text for people
    broker.py        a connection to the app's broker, or why there is none
    answers.py       what workers have answered, sorted by what it means
    workers.py       the workers, as they are asked, once or again and again
    sums.py          queues over all workers, with what waits at the broker
    queues.py        options of queues, changed live, and kept for workers that start later
    dead_letters.py  looked for, replayed, purged; letter_body.py, what can be read of one
    keys/            whose messages wait in queues of fair_keys, and what these may
    partitions.py    who owns which, taken out, put back, planned afresh
    doctor/          what weakens the app's promises
"""
