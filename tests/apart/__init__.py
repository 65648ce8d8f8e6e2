"""Tests that take minutes, or whose outcome hangs on a machine's timing: each by its own command.

`make test-cluster` and `make test-live` run them. Pytest does not find them by itself (see
`norecursedirs` in pyproject.toml).
"""
