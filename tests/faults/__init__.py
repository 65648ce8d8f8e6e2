"""What must hold whatever breaks: the fault matrix.

The parts: `wire` cuts byte streams into methods, `proxy` breaks connections at a chosen one,
`scene` is a worker behind such a proxy, on a `stage`, with one of the `ledgers`; a `run` has the
messages, and `acts` do the damage. A `fault` says what that may cost, `matrix` names all of them,
`accounting` says where every message went.
"""
