"""What Spark costs beside DuckDB, and a cluster beside one machine; see `__main__.py`."""
