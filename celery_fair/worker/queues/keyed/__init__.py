"""A queue that is shared by key: `redis` asks for messages, `places` are those of capped keys."""
