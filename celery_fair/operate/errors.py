"""What goes wrong with what an operator wants."""


class OperateError(Exception):
    """It could not be done. The message says what was attempted, and what to do."""


class InvalidRequestError(OperateError):
    """What was asked for cannot be meant: nobody was asked, and nothing was changed."""


class NoAnswerError(OperateError):
    """Nobody has answered. The message says what was asked, whom, and what to check.

    Attributes:
        silent: whether the question was asked, and nobody has said anything.
    """

    def __init__(self, message: str, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent
