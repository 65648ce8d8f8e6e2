"""Classes, leashes, caps, exclusive and logical queues, live control: on real brokers."""
