"""What goes wrong for reasons that the caller can fix."""

__all__ = ["PipelineError"]


class PipelineError(Exception):
    """The message says what was attempted, with which value, and what to do."""
