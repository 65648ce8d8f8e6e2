"""The worker's short ways, against the long ones that they replace."""
