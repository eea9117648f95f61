"""A sandbox where the kernel lacks what is named: `poor_kernel.py CALL...`; prints JSON of what happened.

The system calls are made to fail with ENOSYS by a filter on this process, which zygote and children inherit.
"""

import ctypes
import errno
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from pytest_kbench.sandbox import kernel, seccomp  # noqa: E402
from pytest_kbench.sandbox.host import (  # noqa: E402
    Child,
    Limits,
    OutputSpec,
    Program,
    Returned,
    Sandbox,
    SandboxRefused,
    TensorArgument,
    ValueArgument,
)  # fmt: skip

seccomp.SYSCALLS["landlock_create_ruleset"] = (444, 444)
rules = seccomp.Filter(kernel.machine())
for name in sys.argv[1:]:
    rules.refuse(name, errno.ENOSYS)
code = rules.program()
holder = ctypes.create_string_buffer(code, len(code))


class Program_(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


kernel.prctl(38, 1)
assert kernel.libc.prctl(22, 2, ctypes.byref(Program_(len(code) // 8, ctypes.addressof(holder)))) == 0

CANDIDATES = Path(__file__).parent / "candidates"


def call(child, *values, like=torch.float32, count=1, seconds=10):
    x = TensorArgument("x", torch.zeros(3), (1,), 0, 3)
    return child.call(
        [x, *(ValueArgument(f"v{i}", value) for i, value in enumerate(values))],
        [OutputSpec(like, (count,))],
        seconds=seconds,
    )


def start(sandbox, name, **limits):
    program = Program("python", CANDIDATES / name, ("forward",))
    child = sandbox.start(program, Limits(memory_bytes=1 << 30, **limits), time.monotonic() + 60)
    assert isinstance(child, Child), child
    return child


found = {}
with Sandbox(threads=1) as sandbox:
    layers = sandbox.layers()
    found["active"], found["refused"] = list(layers.active), dict(layers.refused)
    attacks = start(sandbox, "attacks.py")
    for attack, value in (
        ("signal_nothing", os.getpid()), ("ptrace", os.getpid()), ("pin", os.getpid()), ("renice", os.getpid()),
        ("tcp", 1), ("io_uring", None), ("clone_user_namespace", None), ("read", "/proc/1/environ"),
    ):  # fmt: skip
        returned = call(attacks, attack, *([] if value is None else [value]))
        found[attack] = isinstance(returned, Returned) and bool(returned.outputs[0].item())
    behaving = start(sandbox, "behaviours.py")
    pids = call(behaving, "leave_daemon", like=torch.int64, count=2).outputs[0].tolist()
    behaving.close()
    time.sleep(1)
    found["survivors"] = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    if "scratch" in layers.refused:
        filling = start(sandbox, "behaviours.py", scratch_bytes=1 << 20)
        found["full"] = str(call(filling, "fill_scratch").reason)
    scratch = next(iter(sandbox._zygotes.values())).scratch
found["scratch left"] = scratch.exists()
with Sandbox(threads=1, mode="strict") as sandbox:
    try:
        start(sandbox, "behaviours.py")
    except SandboxRefused as error:
        found["strict"] = sorted(error.layers)
print(json.dumps(found))
