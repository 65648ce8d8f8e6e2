"""A delivery from an AMQP broker that decodes itself when somebody looks into it."""

import sys
from contextlib import suppress
from typing import Any

from celery_fair.worker.express.properties import decode_properties

__all__ = ["undecoded_class"]

_PROPERTIES = 12  # where they begin in a header's frame
_TAG = 5  # where the consumer's tag begins in a method's; its length is before it


def undecoded_class(base: type) -> type:
    """Return a class of kombu's AMQP messages, made to decode late."""
    return type(base.__name__, (_Undecoded, base), {})


class _Undecoded:
    """Goes before a class of kombu's AMQP messages, whose own constructor is called late.

    Until then nothing is set but the channel, the tag and whether it is settled. Kombu's messages
    have slots, and Python asks ``__getattr__`` for one that is not set.

    What cannot be decoded becomes a message with no headers, a body as it came, and the reason
    among its ``errors``, which the worker refuses.

    Arguments:
        accept: the content types that may be decoded.
    """

    def __init__(  # kombu's is called by `_look_into`
        self, channel: Any, tag: int, method: bytes, header: bytes, body: bytes, accept: Any
    ) -> None:
        self.channel = channel
        self.delivery_tag = tag
        self._state = "RECEIVED"
        self._frames = method, header, body, accept

    def __getattr__(self, name: str) -> Any:
        if not self.decode_once():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self, name)

    def decode_once(self) -> bool:
        """Decode, unless that is done; return whether it was not."""
        frames = self.__dict__.pop("_frames", None)
        if frames is not None:
            self._look_into(*frames)
        return frames is not None

    def _look_into(self, method: bytes, header: bytes, body: bytes, accept: Any) -> None:
        state = self._state
        raw = _Raw(body, self.delivery_tag)
        try:
            raw.delivery_info = _delivery_info(method, self.delivery_tag)
            raw.properties = decode_properties(header, _PROPERTIES)
            raw.body = _text(body, raw.properties.get("content_encoding"))
        except Exception:  # noqa: BLE001 - foreign bytes may fail in any way; told to who looks
            self.errors = [sys.exc_info()]
        super().__init__(raw, channel=self.channel, accept=accept)  # type: ignore[call-arg]
        self._state = state


class _Raw:
    """What kombu reads of py-amqp's message."""

    __slots__ = ("body", "delivery_info", "delivery_tag", "properties")

    def __init__(self, body: bytes, delivery_tag: int) -> None:
        self.body: str | bytes = body
        self.delivery_tag = delivery_tag
        self.delivery_info: dict[str, Any] = {"delivery_tag": delivery_tag}
        self.properties: dict[str, Any] = {}


def _text(body: bytes, encoding: str | None) -> str | bytes:
    """Decode a body as py-amqp does, which some serializers rely on; what cannot be stays as is."""
    if encoding:
        with suppress(Exception):
            return body.decode(encoding)
    return body or ""


def _delivery_info(method: bytes, delivery_tag: int) -> dict[str, Any]:
    """Decode the arguments of ``basic.deliver``."""
    flags = _TAG + method[_TAG - 1] + 8
    key = flags + 2 + method[flags + 1]
    return {
        "consumer_tag": method[_TAG : flags - 8].decode("utf-8", "surrogatepass"),
        "delivery_tag": delivery_tag,
        "redelivered": method[flags] & 1 == 1,
        "exchange": method[flags + 2 : key].decode("utf-8", "surrogatepass"),
        "routing_key": method[key + 1 : key + 1 + method[key]].decode("utf-8", "surrogatepass"),
    }
