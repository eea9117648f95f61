"""Bytes between grader and child: length-prefixed JSON, and descriptors from the grader only.

A frame is a 4-byte big-endian length and that many bytes of UTF-8 JSON, an object, at most `MAX_MESSAGE` long. What a
child sends may be anything at all: every way in which it can be wrong is a `WireError`, and nothing else is raised.
Replies have a closed schema (`parse_reply`): unknown keys, types and reasons are refused.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

MAX_MESSAGE = 1 << 20  # bytes of one frame's payload
MAX_DEPTH = 16  # nested arrays and objects
MAX_DIGITS = 18  # of one integer: what fits into 64 bits, with room to spare
MAX_RANK = 64  # dimensions of a claimed tensor, torch's own limit
MAX_CALLS = 2048  # of a turn
MAX_ELEMENTS = (1 << 63) - 1  # of a claimed tensor, torch's own limit
HEADER = struct.Struct(">I")

Fault = Literal["oversized", "encoding", "syntax", "depth", "number", "schema", "turn"]


class WireError(Exception):
    """A message that breaks the protocol; `kind` says how."""

    def __init__(self, kind: Fault, message: str) -> None:
        super().__init__(message)
        self.kind: Fault = kind


def encode(message: Mapping[str, object]) -> bytes:
    """One frame. Raises `WireError("oversized")` when the message is longer than a frame may be."""
    payload = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    if len(payload) > MAX_MESSAGE:
        raise WireError("oversized", f"a message of {len(payload)} bytes, {MAX_MESSAGE} are allowed")
    return HEADER.pack(len(payload)) + payload


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise WireError("number", f"an integer of {len(digits)} digits")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise WireError("number", "a number beyond float64")
    return value


def _constant(token: str) -> NoReturn:
    raise WireError("number", f"the token {token}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireError("syntax", "the same key twice in one object")
    return found


_decoder = json.JSONDecoder(
    parse_int=_integer, parse_float=_real, parse_constant=_constant, object_pairs_hook=_object, strict=True
)


def decode(payload: bytes) -> dict[str, Any]:
    """The object in one frame's payload. Raises `WireError` for anything else."""
    if len(payload) > MAX_MESSAGE:
        raise WireError("oversized", f"a message of {len(payload)} bytes, {MAX_MESSAGE} are allowed")
    try:
        message = _decoder.decode(payload.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise WireError("encoding", "not UTF-8") from error
    except RecursionError as error:
        raise WireError("depth", f"nested deeper than {MAX_DEPTH}") from error
    except ValueError as error:
        raise WireError("syntax", "not JSON") from error
    if not isinstance(message, dict):
        raise WireError("schema", "not an object")
    # Without an escape no text is a surrogate, and nothing is deeper than there are brackets: most need no walk.
    if b"\\u" in payload or payload.count(b"[") + payload.count(b"{") > MAX_DEPTH:
        _walk(message)
    return message


def _walk(message: dict[str, Any]) -> None:
    """Refuse nesting beyond `MAX_DEPTH` and text that cannot be written as UTF-8 again (lone surrogates)."""
    level: list[Any] = [message]
    depth = 0
    while level:
        depth += 1
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str) and not value.isascii():
                try:
                    value.encode("utf-8")
                except UnicodeEncodeError as error:
                    raise WireError("encoding", "a lone surrogate") from error
        if depth > MAX_DEPTH and any(isinstance(value, (dict, list)) for value in level):
            raise WireError("depth", f"nested deeper than {MAX_DEPTH}")
        level = below


class Inbox:
    """Collects received bytes into messages. `feed` and `pop` raise nothing but `WireError`."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        self._bytes += data

    @property
    def pending(self) -> int:
        """Bytes that belong to no message popped so far."""
        return len(self._bytes)

    def pop(self) -> dict[str, Any] | None:
        """The next whole message, or `None` while it is incomplete."""
        if len(self._bytes) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self._bytes)
        if length > MAX_MESSAGE:
            raise WireError("oversized", f"a message of {length} bytes, {MAX_MESSAGE} are allowed")
        end = HEADER.size + length
        if len(self._bytes) < end:
            return None
        payload = bytes(self._bytes[HEADER.size : end])
        del self._bytes[:end]
        return decode(payload)


def receive(channel: socket.socket, descriptors: int = 0) -> tuple[dict[str, Any], list[int]] | None:
    """Block for the next message of a peer that is trusted (the grader's, read by the zygote or a child).

    Up to `descriptors` received descriptors come with it. `None` at the end of the stream.
    """
    header, fds, _, _ = socket.recv_fds(channel, HEADER.size, descriptors)
    while 0 < len(header) < HEADER.size:
        more = channel.recv(HEADER.size - len(header))
        if not more:
            return None
        header += more
    if not header:
        return None
    (length,) = HEADER.unpack(header)
    payload = bytearray()
    while len(payload) < length:
        data = channel.recv(length - len(payload))
        if not data:
            return None
        payload += data
    return decode(bytes(payload)), fds


@dataclass(frozen=True, slots=True)
class Ready:
    """The child is locked down: layers that are active, and those refused with the reason."""

    active: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The candidate is imported; this entry point was found, and perhaps a function `backward` beside it."""

    entry_point: str
    backward: bool


@dataclass(frozen=True, slots=True)
class ReturnedObject:
    """What the child says of one returned object; `aliases` are indices of arguments, `fits` that it was copied.

    A "tensor" has dtype, shape, strides and device; strides and sizes are as many, and none is negative.
    """

    kind: str
    dtype: str | None
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    device: str | None
    aliases: tuple[int, ...]
    callables: tuple[str, ...]
    fits: bool


@dataclass(frozen=True, slots=True)
class Called:
    """The call came back, with these objects."""

    objects: tuple[ReturnedObject, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """Held outputs were copied again: one flag per output, whether it still fits."""

    fits: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """A turn is over: nanoseconds of each call by the child's clock, and where in its memory what each gave lies."""

    nanoseconds: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """Calls on a GPU are ready to be made in turns: whether as a graph, and nanoseconds that issuing one takes.

    Of a graph `places` are per call where in its memory outputs will lie; `apart`, that each call waits for the last.
    """

    captured: bool
    apart: bool
    issuing: int
    places: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Built:
    """The compiler left a library at this path."""

    path: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The child says that the candidate failed, and how; `reason` is one of `CLAIMED_REASONS`."""

    reason: str
    message: str
    detail: str


Reply = Ready | Loaded | Called | Copied | Timed | Staged | Built | Failed

# The reasons for a failure that a child may give, by the operation that failed.
CLAIMED_REASONS: Mapping[str, tuple[str, ...]] = {
    "load": ("load", "binding", "exited", "memory", "crashed"),
    "call": ("raised", "exited", "memory", "crashed"),
    "backward": ("raised", "exited", "memory", "crashed"),
    "reread": ("raised", "exited", "memory", "crashed"),
    "rehearse": ("raised", "exited", "memory", "crashed"),
    "stage": ("raised", "exited", "memory", "crashed"),
    "turn": ("raised", "exited", "memory", "crashed"),
    "build": ("compile",),
}
_ALL_REASONS = frozenset(reason for reasons in CLAIMED_REASONS.values() for reason in reasons)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEVICE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(:[0-9]+)?")


class _Fields:
    """Typed access to one object of a reply, which must have exactly the keys that are asked for."""

    def __init__(self, value: object, keys: Sequence[str]) -> None:
        if not isinstance(value, dict) or set(value) != set(keys):
            raise WireError("schema", f"expected an object with {', '.join(keys)}")
        self._value = value

    def _wrong(self, key: str) -> NoReturn:
        raise WireError("schema", f"the value of {key} has the wrong type")

    def text(self, key: str, longest: int = MAX_MESSAGE) -> str:
        value = self._value[key]
        if not isinstance(value, str) or len(value) > longest:
            self._wrong(key)
        return value

    def name_or_none(self, key: str, pattern: re.Pattern[str], longest: int) -> str | None:
        if self._value[key] is None:
            return None
        value = self.text(key, longest)
        if not pattern.fullmatch(value):
            self._wrong(key)
        return value

    def flag(self, key: str) -> bool:
        value = self._value[key]
        if not isinstance(value, bool):
            self._wrong(key)
        return value

    def items(self, key: str, most: int) -> list[Any]:
        value = self._value[key]
        if not isinstance(value, list) or len(value) > most:
            self._wrong(key)
        return value

    def integer(self, key: str) -> int:
        value = self._value[key]
        if type(value) is not int or value < 0:
            self._wrong(key)
        return value

    def integers(self, key: str, most: int) -> tuple[int, ...]:
        items = self.items(key, most)
        if not all(type(item) is int and item >= 0 for item in items):
            self._wrong(key)
        return tuple(items)

    def rows(self, key: str, most: int, longest: int) -> tuple[tuple[int, ...], ...]:
        items = self.items(key, most)
        if not all(isinstance(row, list) and len(row) <= longest for row in items):
            self._wrong(key)
        if not all(type(item) is int and item >= 0 for row in items for item in row):
            self._wrong(key)
        return tuple(map(tuple, items))

    def integers_or_none(self, key: str, most: int) -> tuple[int, ...] | None:
        return None if self._value[key] is None else self.integers(key, most)

    def texts(self, key: str, most: int, longest: int) -> tuple[str, ...]:
        items = self.items(key, most)
        if not all(isinstance(item, str) and len(item) <= longest for item in items):
            self._wrong(key)
        return tuple(items)

    def flags(self, key: str, most: int) -> tuple[bool, ...]:
        items = self.items(key, most)
        if not all(isinstance(item, bool) for item in items):
            self._wrong(key)
        return tuple(items)


_OBJECT_KEYS = ("kind", "dtype", "shape", "strides", "device", "aliases", "callables", "fits")


def _returned(value: object) -> ReturnedObject:
    fields = _Fields(value, _OBJECT_KEYS)
    found = ReturnedObject(
        kind=fields.text("kind", 200),
        dtype=fields.name_or_none("dtype", _NAME, 50),
        shape=fields.integers_or_none("shape", MAX_RANK),
        strides=fields.integers_or_none("strides", MAX_RANK),
        device=fields.name_or_none("device", _DEVICE, 50),
        aliases=fields.integers("aliases", 1000),
        callables=fields.texts("callables", 20, 200),
        fits=fields.flag("fits"),
    )
    if contradiction := _contradiction(found):
        raise WireError("schema", contradiction)
    return found


def _contradiction(found: ReturnedObject) -> str | None:
    """What of a claim cannot be true together, whatever the task is."""
    if found.kind == "tensor":
        if None in (found.dtype, found.shape, found.strides, found.device):
            return "a tensor without dtype, shape, strides or device"
    elif found.fits or found.strides is not None or found.aliases:
        return "memory of something that is no tensor"
    if found.shape is not None:
        if found.strides is not None and len(found.strides) != len(found.shape):
            return f"{len(found.strides)} strides for {len(found.shape)} dimensions"
        if 0 not in found.shape and math.prod(found.shape) > MAX_ELEMENTS:
            return "a tensor of more elements than there can be"
    if found.aliases and any(left >= right for left, right in itertools.pairwise(found.aliases)):
        return "aliases out of order"
    return None


def parse_reply(message: Mapping[str, Any], seq: int) -> Reply:
    """The reply in a decoded message to the request numbered `seq`.

    Raises `WireError("turn")` when it answers another request, `WireError("schema")` when it is no known reply or one
    that contradicts itself. What holds only for this request (how many outputs it has) is left to whoever made it.
    """
    answered = message.get("seq")
    if type(answered) is not int or answered != seq:
        raise WireError("turn", "it answers a request that was not made")
    body = {key: value for key, value in message.items() if key not in ("seq", "is")}
    match message.get("is"):
        case "ready":
            fields = _Fields(body, ("active", "refused"))
            pairs = fields.items("refused", 50)
            if not all(isinstance(p, list) and len(p) == 2 and all(isinstance(s, str) for s in p) for p in pairs):
                raise WireError("schema", "refused layers must be pairs of text")
            return Ready(fields.texts("active", 50, 100), dict(pairs))
        case "loaded":
            fields = _Fields(body, ("entry_point", "backward"))
            return Loaded(fields.text("entry_point", 1000), fields.flag("backward"))
        case "called":
            return Called(tuple(_returned(item) for item in _Fields(body, ("objects",)).items("objects", 1000)))
        case "copied":
            return Copied(_Fields(body, ("fits",)).flags("fits", 1000))
        case "timed":
            fields = _Fields(body, ("nanoseconds", "places"))
            return Timed(fields.integers("nanoseconds", MAX_CALLS), fields.rows("places", MAX_CALLS, 1000))
        case "staged":
            fields = _Fields(body, ("captured", "apart", "issuing", "places"))
            places = fields.rows("places", MAX_CALLS, 1000)
            return Staged(fields.flag("captured"), fields.flag("apart"), fields.integer("issuing"), places)
        case "built":
            return Built(_Fields(body, ("path",)).text("path", 5000))
        case "failed":
            fields = _Fields(body, ("reason", "message", "detail"))
            reason = fields.text("reason", 50)
            if reason not in _ALL_REASONS:
                raise WireError("schema", "a reason that a child may not claim")
            return Failed(reason, fields.text("message"), fields.text("detail"))
        case _:
            raise WireError("schema", "no known reply")
