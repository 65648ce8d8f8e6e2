"""Five things on each broker, queue, pool and Celery: `python -m tests.matrix`.

Not all combinations: any two values that may meet do so in one cell at least. Each cell is tried
as a whole, with workers of its own.

::

    cell.py       what there is to combine, and what does not go together
    cover.py      few cells in which any two values meet
    servers.py    the brokers, or why one is not here
    pythons.py    environments with the Celerys
    shop.py       a scene on SQS
    things.py     what is tried in each cell
    page.py       the tables in the documentation
"""
