"""What a child says of what a candidate gave or raised: claims, made without trusting the objects themselves.

The unbound methods of torch.Tensor are asked, not an object's own; an exception's text is whatever its class likes.
"""

from __future__ import annotations

import contextlib
import linecache
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch

LONGEST_MESSAGE = 2000  # characters of an exception's text
LONGEST_DETAIL = 16_000  # characters of a traceback
LONGEST_COMPILER_OUTPUT = 64_000
MOST_FRAMES = 20
_MEMORY_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "bad_alloc",
    "cannot allocate memory",
)
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # as they are before any candidate is there

Message = dict[str, Any]


class NoEntryPoint(Exception):
    """The candidate is loaded and has none of the names."""


def claim(value: object, arguments: Sequence[object], targets: Sequence[torch.Tensor | None], index: int) -> Message:
    """What one returned object is; if it is what its target is for, it is copied there."""
    if not isinstance(value, torch.Tensor):
        name = type_name(value)
        return _object_claim("class named tensor" if name == "tensor" else name)
    with torch._C.DisableTorchFunctionSubclass():
        strided = value.layout is torch.strided
        callables = [bounded(str(name), 200) for name, held in list(value.__dict__.items())[:100] if callable(held)]
        if not any(type(value) is each for each in _PLAIN):
            callables.insert(0, type_name(value))
        return {
            "kind": "tensor" if strided else f"{value.layout} tensor",
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "strides": list(value.stride()) if strided else None,
            "device": str(value.device),
            "aliases": _overlapped(value, arguments) if strided else [],
            "callables": callables[:20],
            "fits": index < len(targets) and copied(value, targets[index]),
        }


def listed(returned: object) -> list[object]:
    """What came back, one by one."""
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _object_claim(kind: str) -> Message:
    return {
        "kind": kind, "dtype": None, "shape": None, "strides": None, "device": None,
        "aliases": [], "callables": [], "fits": False,
    }  # fmt: skip


def type_name(value: object) -> str:
    """The name of an object's type, past whatever its metaclass says."""
    return bounded(type.__dict__["__name__"].__get__(type(value)), 200)  # past any metaclass of the candidate's


def _overlapped(value: torch.Tensor, arguments: Sequence[object]) -> list[int]:
    """Indices of the tensor arguments whose storage this tensor's storage touches."""
    storage = value.untyped_storage()
    begin, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    found = []
    for index, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            other = argument.untyped_storage()
            if other.device == storage.device and begin < other.data_ptr() + other.nbytes() and other.data_ptr() < end:
                found.append(index)
    return found


def copied(value: object, target: torch.Tensor | None) -> bool:
    """Copy a returned tensor into shared memory, if it is what was specified."""
    if target is None or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    if value.dtype != target.dtype or value.shape != target.shape or value.device != target.device:
        return False
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        target.copy_(value.detach())
    return True


# Failures, described without trusting the exception.


def describe(error: BaseException, reason: str, path: str) -> Mapping[str, object]:
    """A failure reply for whatever was raised. Raises nothing, whatever the exception's own methods do."""
    if isinstance(error, NoEntryPoint):
        return failed("binding", _text(error))
    name, text = type_name(error), _text(error)
    if reason == "compile":
        return failed("compile", "the compiler failed", text)
    if isinstance(error, SystemExit):
        return failed("exited", bounded(f"SystemExit: {text}", LONGEST_MESSAGE))
    if isinstance(error, MemoryError) or any(sign in text.lower() for sign in _MEMORY_SIGNS):
        reason = "memory"
    detail = ""
    with contextlib.suppress(BaseException):
        detail = traceback_of(error, path)
    return failed(reason, bounded(f"{name}: {text}" if text else name, LONGEST_MESSAGE), detail)


def traceback_of(error: BaseException, path: str) -> str:
    """The frames that lie in the candidate's own files, outermost first, with the source line of each."""
    frames: list[str] = []
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == path or code.co_filename.startswith(path + os.sep):
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            name = os.path.relpath(code.co_filename, os.path.dirname(path))
            frames.append(f'  File "{name}", line {trace.tb_lineno}, in {code.co_name}\n    {bounded(line, 200)}')
        trace = trace.tb_next
    if len(frames) > MOST_FRAMES:
        half = MOST_FRAMES // 2
        frames[half:-half] = [f"  ... {len(frames) - MOST_FRAMES} more frames"]
    return bounded("\n".join(frames), LONGEST_DETAIL)


def failed(reason: str, message: str, detail: str = "") -> Mapping[str, object]:
    """A failure, as a reply."""
    return {"is": "failed", "reason": reason, "message": message, "detail": detail}


def _text(error: BaseException) -> str:
    """`str(error)`, if it has one: the method is the candidate's and may do anything."""
    try:
        plain = str.__getitem__(str(error), slice(None))  # `str` may give a subclass, with methods of its own
        return bounded(middle_cut(plain, LONGEST_COMPILER_OUTPUT), LONGEST_COMPILER_OUTPUT + 100)
    except BaseException:
        return "(its message could not be read)"


def bounded(text: str, most: int) -> str:
    """At most `most` characters, all of which can be written as UTF-8."""
    return text[:most].encode("utf-8", "replace").decode("utf-8")


def middle_cut(text: str, most: int) -> str:
    """At most so many characters, from both ends of a text."""
    return text if len(text) <= most else f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"
