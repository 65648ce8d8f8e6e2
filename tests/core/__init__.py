"""Laws of the algorithms."""
