"""What the logs say, a row for each attempt, each state of a queue, each sign of life, each gap."""
