"""The test suite; see the module docstrings of its parts."""
