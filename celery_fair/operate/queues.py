"""Options of queues, changed live at the workers, and kept for workers that start later."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.kept import Keeping, KeptQueue, keeping
from celery_fair.operate.answers import Answers
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.errors import InvalidRequestError, NoAnswerError, OperateError
from celery_fair.operate.text import assignments
from celery_fair.operate.workers import Workers
from celery_fair.settings import Settings, parse_live_options

T = TypeVar("T")


class NothingKeptError(OperateError):
    """There is no Redis that might keep something."""


class Changed(NamedTuple):
    """What became of a change.

    Attributes:
        answers: the workers'.
        kept: what was kept of the queue before; None if the change is not kept.
        note: what else is to be known.
    """

    answers: Answers
    kept: KeptQueue | None = None
    note: str = ""


def live_options(queue: str, words: Sequence[str]) -> dict[str, Any]:
    """Return options, written ``name=value``, as a worker is sent them; it is not asked yet.

    Raises:
        InvalidRequestError: no worker would take them.
    """
    options = assignments(words, "quantum=40 or rate=10/s")
    try:
        parse_live_options(queue, options)
    except ImproperlyConfigured as exc:
        raise InvalidRequestError(str(exc)) from exc
    return options


def set_options(
    workers: Workers, queue: str, options: Mapping[str, Any], keep: bool = False
) -> Changed:
    """Change options of a queue, unless a worker that is asked before refuses that.

    Arguments:
        options: as `live_options` returns them.
        keep: for workers that start later, too.

    Raises:
        NoAnswerError: nobody has said whether it would take them; nothing was changed.
        OperateError: there is no Redis to keep it, or it does not answer; nothing was changed.
    """
    asked = willing(workers, queue, options)
    if asked.errors:
        raw = {name: answer for name, answer in asked.raw.items() if name not in asked.good}
        return Changed(replace(asked, raw=raw, good={}), note="nothing was changed")
    kept = kept_by(workers.app, lambda keeping: keeping.keep(queue, options)) if keep else None
    note = ""
    try:  # all are told, whoever was too busy to answer at first included
        answers = workers.ask("fair_set", queue=queue, options=dict(options))
    except NoAnswerError as exc:
        answers, note = Answers(), "" if exc.silent else str(exc)
    unconfirmed = (
        f"was told, but has not confirmed within {workers.timeout:g} s; fair status shows whether"
        " it did"
    )
    silent = dict.fromkeys(asked.good.keys() - answers.raw.keys(), unconfirmed)
    return Changed(replace(answers, errors=answers.errors | silent), kept, note)


def willing(workers: Workers, queue: str, options: Mapping[str, Any]) -> Answers:
    """Ask workers whether they would make a change.

    Raises:
        NoAnswerError: nobody has said.
    """
    return workers.ask("fair_set", queue=queue, options=dict(options), check=True)


def pause(workers: Workers, queue: str, keep: bool = False) -> Changed:
    """Have workers start nothing of a queue; it is kept once one of them has paused it.

    Raises:
        NoAnswerError: nobody has answered.
        OperateError: there is no Redis to keep it, or it does not answer.
    """
    if keep:  # or nothing is done
        kept_by(workers.app, lambda keeping: keeping.of(queue))
    answers = workers.ask("fair_pause", queue=queue)
    kept = None
    if keep and answers.good:
        kept = kept_by(workers.app, lambda keeping: keeping.pause(queue, True))
    return Changed(answers, kept)


def resume(workers: Workers, queue: str) -> Changed:
    """End a pause of a queue, also one that is kept, and if there is no worker to be resumed.

    Raises:
        NoAnswerError: nobody has answered.
    """
    kept, note = None, ""
    try:
        kept = kept_by(workers.app, lambda keeping: _resumed(keeping, queue))
    except NothingKeptError:
        pass
    except OperateError as exc:  # workers that run are resumed all the same
        note = f"{exc}; is a pause kept there? Say this again"
    if kept is not None:
        note = f"{queue}: workers that start later do not find it paused any more"
    try:
        return Changed(workers.ask("fair_resume", queue=queue), kept, note)
    except NoAnswerError as exc:
        raise NoAnswerError(f"{exc} {note}".rstrip(), exc.silent) from exc


def _resumed(keeping: Keeping, queue: str) -> KeptQueue | None:
    return keeping.pause(queue, False) if keeping.of(queue).paused else None


def forget(app: Any, queue: str) -> bool:
    """Keep nothing of a queue any more; return whether something was.

    Raises:
        OperateError: Redis does not answer.
    """
    try:
        return kept_by(app, lambda keeping: keeping.forget(queue)) != KeptQueue()
    except NothingKeptError:
        return False


def kept_by(app: Any, keep: Callable[[Keeping], T]) -> T:
    """Have something kept; return what `keep` does.

    Raises:
        NothingKeptError: there is no Redis to keep it.
        OperateError: Redis does not answer.
    """
    with connection_to(app.connection_for_write) as connection:
        trouble = trouble_with(connection)
        try:
            with keeping(Settings.of(app), connection) as found:
                if found is not None:
                    return keep(found)
        except Exception as exc:
            said = trouble or str(exc) or type(exc).__name__
            raise OperateError(f"Redis cannot be asked what is kept: {said}") from exc
    raise NothingKeptError(
        "--keep needs a Redis: as broker, or fair_key_store = 'redis://…' (or fair_leash_url), in"
        " the settings of workers, too. Nothing was changed"
    )
