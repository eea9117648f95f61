"""Children under a sanitizer: how their zygote is started, and what their reports come to.

A sanitizer's runtime must be the first library of a process and sees all that happens there, so its children come from
a zygote of their own, a fresh interpreter. They are locked down as all children are; `UNBORNE` says what they do not
bear. What is reported is the child's own word, like all that it prints: it is used only against it.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..options import Sanitizer
from ..record import Reason
from .kernel import libc
from .outcome import Failure, Program, Runtime

UNBORNE: Final = "addresses are not random"

_VARIABLES: Final[Mapping[Sanitizer, str]] = {"address": "ASAN_OPTIONS", "thread": "TSAN_OPTIONS"}
_COMMON: Final = {"allocator_may_return_null": 1}  # a failed allocation is told as everywhere else
_OPTIONS: Final[Mapping[Sanitizer, Mapping[str, int]]] = {
    "address": {
        **_COMMON,
        "detect_leaks": 0,  # the interpreter's and torch's, and it needs ptrace
        "malloc_fill_byte": 255, "max_malloc_fill_size": 1 << 30,  # as in every child: NaN for any float
        "quarantine_size_mb": 64,
        "handle_segv": 2, "handle_sigbus": 2, "handle_sigfpe": 2,  # 2: no other handler
        "print_legend": 0,
    },
    "thread": {
        **_COMMON,
        "halt_on_error": 1,
        "ignore_noninstrumented_modules": 1,  # torch's own threads synchronise out of the runtime's sight
        "detect_deadlocks": 0,  # a lock order in torch or Python is not the candidate's
        "die_after_fork": 0,
        "history_size": 4,
    },
}  # fmt: skip

_notify = getattr(libc, "__sanitizer_sandbox_on_notify", None)  # where a runtime is in this process

# No random addresses: the runtime wants certain ranges for itself, which newer kernels may have given away.
_LAUNCH: Final = """
import ctypes, os, sys
personality = ctypes.CDLL(None).personality
personality(ctypes.c_ulong(personality(ctypes.c_ulong(0xFFFFFFFF)) | 0x0040000))
os.environ["LD_PRELOAD"] = sys.argv[1]
os.execv(sys.argv[2], sys.argv[2:])
"""

# Each frame ends with the file of its library, by which the candidate's own are told.
_FRAMES: Final = "stack_trace_format='    #%n %F %L {%m}'"
_FRAME: Final = re.compile(r"^\s+#\d+ ")
_HEADLINE: Final = re.compile(r"(?:ERROR|WARNING): ((?:Address|Thread)Sanitizer): (.*)$", re.MULTILINE)
_ACCESS: Final = re.compile(r"^\s*((?:atomic )?(?:read|write) of size \d+)", re.IGNORECASE)
_PLACE: Final = re.compile(r" ([^\s/<(][^\s]*:\d+)(?::\d+)?$")  # of the candidate's own sources, by a relative path
_PARTICULARS: Final = re.compile(r" (?:on (?:unknown )?address|\(pid=|\(pc ).*")
_NOISE: Final = re.compile(
    r"^(?:=+|==\d+==(?!ERROR).*|.*is a wild pointer inside of access range.*|.*global '<null>'.*|\s*)$"
)
_FENCED: Final = ("use-after-poison", "access beside the elements of an argument or output")


def command(runtime: Runtime, program: Sequence[str]) -> list[str]:
    """The command that runs a program with a runtime in it, without random addresses where the kernel lets it.

    A runtime looks for C++'s own functions when it starts, long before torch brings their library.
    """
    preloaded = ":".join(map(str, (runtime.file, *_loaded("libstdc++.so"))))
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, preloaded, *program]


def _loaded(name: str) -> list[str]:
    """The file of a library that this process has loaded, if it has."""
    paths = (line.split(maxsplit=5)[-1].rstrip("\n") for line in Path("/proc/self/maps").read_text().splitlines())
    return [path for path in dict.fromkeys(paths) if os.path.basename(path).startswith(name)][:1]


def environment(runtime: Runtime) -> dict[str, str]:
    """What tells a runtime how to behave."""
    options = _OPTIONS[runtime.sanitizer]
    return {_VARIABLES[runtime.sanitizer]: ":".join([_FRAMES, *(f"{name}={value}" for name, value in options.items())])}


def introduce() -> None:
    """In a zygote: have a runtime start the thread that it needs itself, and end it, so that `settle` can in forks.

    It starts it with the first thread of the program, and listens to `settle` from then on.
    """
    if _notify is not None:
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, libc.getppid, None)
        libc.pthread_join(thread, None)
        settle()


def settle() -> None:
    """Have a runtime end its own thread, which it starts again in every fork: a lock-down holds for one thread."""
    if _notify is not None:
        _notify(ctypes.create_string_buffer(32))  # no wishes: zero in every field of its structure


def judged(failure: Failure, program: Program) -> Failure:
    """A child's failure, or what its sanitizer said of this program before it ended the process."""
    if program.runtime is None or failure.reason not in (Reason.EXITED, Reason.CRASHED):
        return failure
    headline = _HEADLINE.search(failure.detail)
    if headline is None:
        return failure
    lines = failure.detail[headline.start() :].partition("\nSUMMARY:")[0].splitlines()
    places = [place for place in (_place(line, program) for line in lines) if place is not None]
    what = _PARTICULARS.sub("", headline[2]).strip().rstrip(":")
    what = _FENCED[1] if what == _FENCED[0] else what
    access = next((found[1].lower() for found in map(_ACCESS.match, lines) if found), None)
    parts = [what, *([access] if access else [])]
    message = f"{headline[1]}: {', '.join(parts)}{f' at {places[0]}' if places else ''}"
    return Failure(Reason.SANITIZER, message, "\n".join(_told(lines, program, own=bool(places))))


def _place(line: str, program: Program) -> str | None:
    """The file and line of a frame in the candidate's own sources; `None` for any other line."""
    frame, brace, module = line.rpartition(" {")
    if not brace or module != f"{program.path.resolve()}}}" or not _FRAME.match(line):
        return None
    found = _PLACE.search(frame)
    return None if found is None else found[1]


def _told(lines: Sequence[str], program: Program, *, own: bool) -> Iterator[str]:
    """A report's lines without noise; with `own`, of frames only those of the candidate's own sources."""
    for line in lines:
        if not _FRAME.match(line):
            if not _NOISE.match(line):
                yield line
        elif not own or _place(line, program) is not None:
            yield line.rpartition(" {")[0]
