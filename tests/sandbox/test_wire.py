"""Whatever bytes a child sends, the grader raises a `WireError` or gets a reply that fits the schema."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kbench.sandbox import wire

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
OBJECT = {
    "kind": "tensor", "dtype": "float32", "shape": [2], "strides": [1], "device": "cpu", "aliases": [], "callables": [],
    "fits": True,
}  # fmt: skip
REPLIES: list[dict[str, Any]] = [
    {"seq": 5, "is": "ready", "active": ["uid"], "refused": [["seccomp", "why"]]},
    {"seq": 5, "is": "loaded", "entry_point": "forward", "backward": False},
    {"seq": 5, "is": "called", "objects": [OBJECT]},
    {"seq": 5, "is": "copied", "fits": [True, False]},
    {"seq": 5, "is": "built", "path": "/x/y.so"},
    {"seq": 5, "is": "failed", "reason": "raised", "message": "E: no", "detail": ""},
]


def parse(data: bytes) -> None:
    """Everything that the grader does with what it receives."""
    inbox = wire.Inbox()
    inbox.feed(data)
    while (message := inbox.pop()) is not None:
        wire.parse_reply(message, 5)


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_wire_errors(data: bytes) -> None:
    for each in (data, struct.pack(">I", len(data)) + data):
        with contextlib.suppress(wire.WireError):
            parse(each)


@given(JSON)
def test_random_json_raises_nothing_but_wire_errors(value: object) -> None:
    data = json.dumps(value).encode()
    with contextlib.suppress(wire.WireError):
        parse(struct.pack(">I", len(data)) + data)


@given(st.sampled_from(REPLIES), st.data())
def test_replies_with_one_part_replaced_raise_nothing_but_wire_errors(
    reply: dict[str, Any], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(reply)))
    changed = {**reply, key: data.draw(JSON)}
    if reply["is"] == "called" and key == "objects":
        part = data.draw(st.sampled_from(sorted(OBJECT)))
        changed["objects"] = [{**OBJECT, part: data.draw(JSON)}]
    text = json.dumps(changed).encode()
    with contextlib.suppress(wire.WireError):
        parse(struct.pack(">I", len(text)) + text)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply["is"])
def test_good_replies_are_parsed_however_they_are_cut(reply: dict[str, Any]) -> None:
    frame = wire.encode(reply)
    inbox = wire.Inbox()
    for byte in frame[:-1]:
        inbox.feed(bytes([byte]))
        assert inbox.pop() is None
    inbox.feed(frame[-1:] + b"\0")
    message = inbox.pop()
    assert message == reply
    assert inbox.pending == 1
    assert type(wire.parse_reply(message, 5)).__name__.lower() == {"failed": "failed"}.get(reply["is"], reply["is"])


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"", "syntax"),
        (b"{", "syntax"),
        (b"[]", "schema"),
        (b"3", "schema"),
        (b'{"a":NaN}', "number"),
        (b'{"a":-Infinity}', "number"),
        (b'{"a":1e999}', "number"),
        (b'{"a":' + b"9" * 400_000 + b"}", "number"),
        (b'{"a":1,"a":2}', "syntax"),
        (b"\xff", "encoding"),
        (b'{"a":"\\ud800"}', "encoding"),
        (b'{"\\ud800":1}', "encoding"),
        (b'{"a":' * 100_000, "depth"),
        (b'{"a":' + b"[" * 20 + b"]" * 20 + b"}", "depth"),
        (b" " * ((1 << 20) + 1), "oversized"),
    ],
)
def test_bad_payloads_are_told_apart(payload: bytes, kind: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.decode(payload)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 6}, {"seq": True}, {"seq": 5.0}, {"seq": None}, {"is": "nothing"}, {"is": None}, {"is": []},
        {"reason": "build_failed"}, {"message": 3}, {"extra": 1}, {"detail": None},
    ],
)  # fmt: skip
def test_replies_outside_the_schema_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(wire.WireError):
        wire.parse_reply({**REPLIES[-1], **change}, 5)


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(wire.WireError, match="bytes"):
        wire.encode({"text": "x" * wire.MAX_MESSAGE})
