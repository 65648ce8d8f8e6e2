"""What the documentation's code blocks are held to."""
