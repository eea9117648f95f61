"""One candidate with every behaviour that must get a verdict: `forward(x, behaviour)`."""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time

import torch

CALLS = 0


def forward(x, behaviour, *values):
    return globals()[behaviour](x, *values)


def add_one(x):
    return x + 1


def negative(x):
    return -x


def segfault(x):
    ctypes.string_at(0)


def abort(x):
    os.abort()


def kill_itself(x):
    os.kill(os.getpid(), signal.SIGKILL)


def stop_itself(x):
    os.kill(os.getpid(), signal.SIGSTOP)


def loop(x):
    while True:
        pass


def loop_without_the_gil(x):
    time.sleep(3600)


def allocate(x):
    return torch.zeros(1 << 34)


def touch_shared(x):
    memory = mmap.mmap(-1, 1 << 33)
    for start in range(0, 1 << 33, 1 << 20):
        memory[start : start + (1 << 20)] = b"x" * (1 << 20)


def map_sparsely(x, gigabytes):
    """Touch one page in 2 MiB of a mapping that is only read: all of it is page tables."""
    memory = mmap.mmap(-1, gigabytes << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
    memory.madvise(15)  # MADV_NOHUGEPAGE
    for place in range(0, gigabytes << 30, 2 << 20):
        memory[place]
    time.sleep(9)


def exit_at_once(x):
    os._exit(0)


def exit_politely(x):
    sys.exit(3)


def flood(x):
    while True:
        os.write(1, b"x" * 65536)


def print_and_crash(x):
    print("the last words")
    os.write(2, b"\x1b[31mred\n")
    os.abort()


def fork_bomb(x):
    while True:
        with contextlib.suppress(OSError):
            os.fork()


def raise_value_error(x):
    raise ValueError("only dense\nin this version")


def raise_unprintable(x):
    class Unprintable(Exception):
        def __str__(self):
            raise self

    raise Unprintable


def raise_long(x):
    raise RuntimeError("y" * 5_000_000)


def raise_base(x):
    class Base(BaseException):
        pass

    raise Base("not an Exception")


def raise_memory(x):
    raise MemoryError


def recurse(x):
    return recurse(x)


def close_channel(x):
    os.close(3)
    return x + 1


def close_channel_and_wait(x):
    os.close(3)
    time.sleep(3600)


def frame(message):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(data)) + data


def the_request():
    """What the grader asked, from the frames above: a forger may know it all."""
    above = sys._getframe()
    while "request" not in above.f_locals:
        above = above.f_back
    return above.f_locals["request"]


def forge_wrong_seq(x):
    os.write(3, frame({"seq": 1, "is": "called", "objects": []}))
    return x + 1


def forge_perfectly(x):
    claim = {
        "kind": "tensor", "dtype": "float32", "shape": list(x.shape), "strides": list(x.stride()), "device": "cpu",
        "aliases": [], "callables": [], "fits": True,
    }  # fmt: skip
    os.write(3, frame({"seq": the_request()["seq"], "is": "called", "objects": [claim]}))
    time.sleep(0.3)
    return x + 1


def forge_two(x):
    reply = frame({"seq": the_request()["seq"], "is": "called", "objects": []})
    os.write(3, reply + reply)
    time.sleep(1)


def forge_another_kind(x):
    os.write(3, frame({"seq": the_request()["seq"], "is": "loaded", "entry_point": "forward", "backward": False}))
    time.sleep(1)


def forge_reason(x):
    os.write(
        3, frame({"seq": the_request()["seq"], "is": "failed", "reason": "build_failed", "message": "", "detail": ""})
    )
    time.sleep(1)


def send_garbage(x):
    os.write(3, frame(b"\xff\xfe{"))
    time.sleep(1)


def send_deep(x):
    os.write(3, frame(b"[" * 100_000))
    time.sleep(1)


def send_oversized(x):
    os.write(3, b"\xff\xff\xff\xff" + b"x" * 100)
    time.sleep(1)


def send_half(x):
    os.write(3, b"\x00\x00")
    os._exit(0)


def send_later(x):
    thread = threading.Timer(0.05, lambda: os.write(3, frame({"seq": 1})))
    thread.start()
    return x + 1


def soon(act, *values):
    threading.Timer(0.05, lambda: act(*values)).start()


def exit_later(x):
    soon(os._exit, 7)
    return x + 1


def abort_later(x):
    soon(os.abort)
    return x + 1


def reply_and_hang_up(x):
    """Both in one go, so that the grader finds the reply and the end of the channel together."""
    os.write(3, frame({"seq": the_request()["seq"], "is": "called", "objects": []}))
    socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_WR)
    time.sleep(3600)


def hang_up_later(x):
    soon(lambda: socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_WR))
    return x + 1


def fill_the_channel(x):
    os.set_blocking(3, False)
    while True:
        with contextlib.suppress(BlockingIOError):
            os.write(3, b"\x00\x0f\xff\xff" + b" " * 65536)


# What it returns.


def return_none(x):
    return None


def return_tuple(x):
    return x + 1, x + 2


def return_input(x):
    return x


def return_view_of_input(x):
    return x[:1]


def return_transposed(x):
    return (x.t() + 1).contiguous().t()


def return_double(x):
    return x.double()


def return_wrong_shape(x):
    return x[None] + 1


def return_empty(x):
    return torch.empty(x.shape)


class Lazy(torch.Tensor):
    pass


def return_subclass(x):
    return (x + 1).as_subclass(Lazy)


def return_with_callable(x):
    y = x + 1
    y.hook = lambda: None
    y.note = "harmless"
    return y


def return_sparse(x):
    return x.to_sparse()


def return_meta(x):
    return x.to("meta")


def return_requiring_grad(x):
    return (x + 1).requires_grad_()


HELD = []


def change_earlier_output(x):
    for tensor in HELD:
        tensor.zero_()
    HELD.append(x + 1)
    return HELD[-1]


def write_input(x):
    x[0, 0] = 7.0
    return x + 1


def write_in_place(x):
    x.add_(1)
    return x.clone()


def write_after(x):
    ctypes.memset(x.data_ptr() + x.untyped_storage().nbytes() - 4 * x.storage_offset(), 0, 4)
    return x + 1


def write_before(x):
    ctypes.memset(x.data_ptr() - 4, 0, 4)
    return x + 1


def write_into_gap(x):
    torch.as_strided(x, (1,), (1,), x.storage_offset() + x.shape[1]).fill_(5.0)
    return x + 1


def bend_input(x):
    x.t_()
    return x.t() + 1


def same_object_as_before(x):
    """1 where the tensor, its address and its version are those of the first call."""
    global CALLS
    CALLS += 1
    mark = (id(x), x.data_ptr(), x._version)
    HELD.append(mark)
    return torch.full(x.shape, float(mark == HELD[0]))


def describe(x):
    """Offset, storage size, strides, alignment, versions: as a tensor."""
    numbers = [x.storage_offset(), x.untyped_storage().nbytes() // x.itemsize, *x.stride(), int(x.requires_grad)]
    return torch.tensor(numbers)


def sum_of_gap(x):
    """How many elements of the storage are huge."""
    storage = torch.as_strided(x, (x.untyped_storage().nbytes() // x.itemsize,), (1,), 0)
    return (storage.abs() > 1e30).sum().reshape(1)


def types_of(x, *values):
    expected = (3, 2.5, True, "text", None, 10**30, float("inf"))
    return torch.tensor([float(type(a) is type(b) and a == b) for a, b in zip(values, expected, strict=True)])


def fresh_memory(x):
    """Share of huge numbers in newly allocated tensors of 4 kB, 256 kB and 8 MB, twice."""
    shares = []
    for _ in range(2):
        for size in (4 << 10, 256 << 10, 8 << 20):
            tensor = torch.empty(size // 4)
            shares.append((tensor > 1e30).float().mean().item())
            tensor.fill_(1.0)
            del tensor
    return torch.tensor(shares)


def threads(x):
    return torch.tensor([torch.get_num_threads(), int(os.environ["OMP_NUM_THREADS"])])


def grow_mapping(x):
    """mremap the buffer to ten times its size and read beyond the file: SIGBUS, here and not in the grader."""
    libc = ctypes.CDLL(None)
    libc.mremap.restype = ctypes.c_void_p
    page = x.data_ptr() & ~4095
    grown = libc.mremap(ctypes.c_void_p(page), ctypes.c_size_t(4096), ctypes.c_size_t(1 << 24), 1)
    if grown == ctypes.c_void_p(-1).value:
        raise OSError("mremap was refused")
    ctypes.memset(grown + (1 << 23), 0, 4)


def punch_hole(x):
    """MADV_REMOVE on the shared pages."""
    libc = ctypes.CDLL(None)
    libc.madvise(ctypes.c_void_p(x.data_ptr() & ~4095), ctypes.c_size_t(4096), 9)
    return torch.zeros(x.shape)


# Processes that want to live on. Each gives process ids.


def leave_daemon(x):
    """Double fork, new session, new group: what a daemon does."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.setpgid(0, 0)
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(writing, struct.pack("i", os.getpid()))
            time.sleep(3600)
        os._exit(0)
    (daemon,) = struct.unpack("i", os.read(reading, 4))
    return torch.tensor([os.getpid(), daemon])


def leave_many(x):
    pids = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            time.sleep(3600)
        pids.append(pid)
    return torch.tensor(pids)


def fill_scratch(x):
    with open(os.path.join(os.environ["TMPDIR"], "big"), "wb") as file:
        file.write(b"x" * (8 << 20))
    time.sleep(3600)
