"""AMQP's message properties, decoded by the layout of a message that was like them.

The messages of a task have the same headers, in the same order and of the same types, and differ in
a few values. So the first one is decoded by py-amqp, and its layout kept: what lies between the
values, and where the values are. Of the next one of the same length the standard library's `struct`
takes all values at once; if all that lies between is the same, they are all that there is to do.
What fits no layout is decoded by py-amqp.
"""

from collections.abc import Iterator
from copy import deepcopy
from struct import Struct, calcsize
from typing import Any, NamedTuple

from amqp.serialization import decode_properties_basic

_MOST = 1000
"""Layouts kept, some 2 kB each."""

_MOST_ALIKE = 4
"""Of headers of the same length."""

_HEADERS = "application_headers"
_PROPERTIES = (  # by their flags; strings, but where the type is given as in tables
    (0x8000, "content_type", ""),
    (0x4000, "content_encoding", ""),
    (0x2000, _HEADERS, "F"),
    (0x1000, "delivery_mode", "B"),
    (0x0800, "priority", "B"),
    (0x0400, "correlation_id", ""),
    (0x0200, "reply_to", ""),
)
_OTHERS = 0x01FF
_NUMBERS = {"I": "i", "d": "d", "t": "?", "B": "B"}
"""The types of tables that are numbers of a fixed size, as `struct` calls them.

See RabbitMQ's errata to AMQP 0-9-1, section 3. Of integers of 64 bits py-amqp has changed its mind.
"""

_short = Struct(">H").unpack_from
_long = Struct(">I").unpack_from


class _Value(NamedTuple):
    """Where a value is that may differ from message to message."""

    name: Any
    is_header: bool
    code: str  # of `struct`
    start: int
    end: int


class _Layout:
    """That of a message.

    Arguments:
        values: all that may differ, in their order.
        properties: the message's, as py-amqp has decoded them.
    """

    def __init__(
        self, buffer: bytes, at: int, values: list[_Value], properties: dict[str, Any]
    ) -> None:
        codes, place = [">"], at
        for value in values:
            codes += [f"{value.start - place}s", value.code]
            place = value.end
        codes.append(f"{len(buffer) - place}s")
        self._unpack = Struct("".join(codes)).unpack_from
        self._between = self._unpack(buffer, at)[::2]
        self._properties = properties
        # Whoever gets the message may change what it holds.
        self._headers = deepcopy(properties[_HEADERS])
        places = [(value.name, value.is_header, 2 * n + 1) for n, value in enumerate(values)]
        self._strings = [places[n] for n, value in enumerate(values) if value.code.endswith("s")]
        self._numbers = [place for place in places if place not in self._strings]
        self._copies = [
            (name, value.copy)
            for name, value in self._headers.items()
            if isinstance(value, dict | list)
        ]

    def decode(self, buffer: bytes, at: int) -> dict[str, Any] | None:
        """Return the properties of a message of the same length, if it has this layout."""
        parts = self._unpack(buffer, at)
        if parts[::2] != self._between:
            return None
        properties = self._properties.copy()
        headers = self._headers.copy()
        try:
            for name, is_header, place in self._strings:
                text = parts[place].decode("utf-8", "surrogatepass")
                (headers if is_header else properties)[name] = text
        except UnicodeDecodeError:
            return None
        for name, is_header, place in self._numbers:
            (headers if is_header else properties)[name] = parts[place]
        for name, copy in self._copies:
            headers[name] = copy()
        properties[_HEADERS] = headers
        return properties


_layouts: dict[int, list[_Layout]] = {}


def decode_properties(buffer: bytes, at: int) -> dict[str, Any]:
    """Return the properties of a content header's frame; `at` is where their flags are.

    Raises:
        Exception: whatever py-amqp raises, if they are malformed.
    """
    alike = _layouts.get(len(buffer))
    if alike is not None:
        for layout in alike:
            found = layout.decode(buffer, at)
            if found is not None:
                return found
    properties: dict[str, Any]
    properties, _ = decode_properties_basic(buffer, at)
    _learn(buffer, at, properties)
    return properties


def _learn(buffer: bytes, at: int, properties: dict[str, Any]) -> None:
    alike = _layouts.get(len(buffer), [])
    headers = properties.get(_HEADERS)
    if headers is None or len(_layouts) >= _MOST or len(alike) >= _MOST_ALIKE:
        return
    if any(map(_is_nested, headers.values())):
        return
    try:
        values = list(_values(buffer, at))
        found = [value for value in values if value.code]
        layout = _Layout(buffer, at, found, dict(properties))
        is_right = layout.decode(buffer, at) == properties
    except Exception:  # noqa: BLE001 - a type or a name that is not for us, a length that lies
        return
    names = [value.name for value in values if value.is_header]
    if is_right and set(names) == headers.keys() and len(names) == len(headers):
        _layouts[len(buffer)] = [*alike, layout]


def _is_nested(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(part, dict | list) for part in parts)


def _values(buffer: bytes, at: int) -> Iterator[_Value]:
    """Yield where the values are, with an empty code for those that are the same in a layout."""
    (flags,) = _short(buffer, at)
    if flags & _OTHERS:
        raise KeyError(flags)
    at += 2
    for flag, name, kind in _PROPERTIES:
        if flags & flag and kind == "F":
            end = at + 4 + _long(buffer, at)[0]
            yield from _table(buffer, at + 4, end)
            at = end
        elif flags & flag:
            value = _Value(name, False, "B", at, at + 1)
            if not kind:
                size = buffer[at]
                value = _Value(name, False, f"{size}s", at + 1, at + 1 + size)
            yield value
            at = value.end


def _table(buffer: bytes, at: int, end: int) -> Iterator[_Value]:
    while at < end:
        start = at + 1
        at = start + buffer[at]
        name = buffer[start:at].decode("utf-8", "surrogatepass")
        kind = chr(buffer[at])
        at += 1
        if kind == "V":
            yield _Value(name, True, "", at, at)
        elif kind in "SFA":
            start = at + 4
            at = start + _long(buffer, at)[0]
            yield _Value(name, True, f"{at - start}s" if kind == "S" else "", start, at)
        else:
            code = _NUMBERS[kind]
            start, at = at, at + calcsize(f">{code}")
            yield _Value(name, True, code, start, at)
