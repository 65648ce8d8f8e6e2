"""What that means: shares, waits, laws that hold or not, costs, capacity."""
