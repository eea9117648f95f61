"""A grader with a daemon and an endless call in its sandbox; says their process ids and waits to be killed."""

import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from pytest_kbench.sandbox.host import (  # noqa: E402
    Child,
    Limits,
    OutputSpec,
    Program,
    Returned,
    Sandbox,
    TensorArgument,
    ValueArgument,
)  # fmt: skip

sandbox = Sandbox(threads=1)
program = Program("python", Path(sys.argv[1]), ("forward",))


def call(child: Child, behaviour: str) -> object:
    x = TensorArgument("x", torch.zeros(3), (1,), 0, 3)
    return child.call([x, ValueArgument("b", behaviour)], [OutputSpec(torch.int64, (2,))], seconds=100)


children = [sandbox.start(program, Limits(memory_bytes=1 << 30), time.monotonic() + 60) for _ in range(2)]
first, second = children
assert isinstance(first, Child)
assert isinstance(second, Child)
returned = call(first, "leave_daemon")
assert isinstance(returned, Returned)
assert returned.outputs[0] is not None
threading.Thread(target=call, args=(second, "loop"), daemon=True).start()
time.sleep(0.1)
assert sandbox._zygotes
print(
    next(iter(sandbox._zygotes.values())).process.pid,
    second.pid,
    *returned.outputs[0].tolist(),
    next(iter(sandbox._zygotes.values())).scratch,
    flush=True,
)
time.sleep(100)
