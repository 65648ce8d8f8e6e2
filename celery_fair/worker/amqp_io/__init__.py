"""py-amqp's connection: its `channels`, what its `reader` takes in, and what its `writer` sends.

`silence` notices a broker that says nothing.
"""
