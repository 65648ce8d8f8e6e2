"""Messages that no publisher of Celery's would send, by the thousand, each made from a seed.

A message is a good one with some faults; of each it is known what became of it, by a mark that it
has in several places, of which the faults leave one.
"""
