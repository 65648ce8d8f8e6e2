"""What must hold whatever breaks: the fault matrix.

The parts: `wire` cuts byte streams into methods, `proxy` breaks connections at
a chosen one, `scene` is a worker behind such a proxy, `matrix` names the faults,
`accounting` says where every message went.
"""
