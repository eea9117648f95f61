"""The candidate's side: what runs in a locked-down child, and the only module that imports a candidate.

`serve` answers the grader's requests one by one: load, call, reread, build. Nothing here is trusted by the grader,
and nothing here needs to be: a candidate in the same process can change all of it, and harms only its own grade.

Broad `except BaseException` is right here and nowhere else: whatever a candidate raises is a reply.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib.machinery
import importlib.util
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import tvm_ffi

from . import wire
from .buffers import HUGE, MappedBuffer, OpenedBuffer, tensor_over
from .claims import LONGEST_COMPILER_OUTPUT, NoEntryPoint, bounded, claim, copied, describe, failed, listed, middle_cut
from .compiled import compiled
from .gpu_timed import Arena, Stage
from .gradients import Forward, differentiated, with_leaves
from .limits import LayerReport
from .reference import import_reference
from .timed import Rehearsed, backwards, before_backwards, forwards, quiet_allocator

MODULE_NAME = "candidate"
BACKWARD = "backward"  # the name of a candidate's own gradients

_USER = "candidate"
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_PERTURB = -1, -2, -3, -6

AWAKE = 0.05  # seconds
_MOST_NAMES = 10
_FREED = (1 << 20, 64 << 20)  # bytes: torch's allocator keeps blocks of at most 1 MiB apart from larger ones
_EXPORTS = {
    "tvm-ffi": "export one with TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});",
    "torch": 'export one with m.def("{name}", &{name}); in its PYBIND11_MODULE or TORCH_LIBRARY',
}

Message = dict[str, Any]


def poison_free_memory() -> None:
    """Make malloc hand out huge floats, also for blocks that were never used (glibc's mallopt), in every dtype.

    Not NaN: torch's own kernels multiply what they never wrote by zero. glibc xors the value with 0xFF. The other
    thresholds keep freed blocks in the heap, where they come back as they would from a real allocator.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        libc.mallopt(_M_TOP_PAD, 1 << 20)
        libc.mallopt(_M_PERTURB, HUGE ^ 0xFF)


def prepare(threads: int | None) -> None:
    """Give a fresh fork its own threads, random state and surroundings. The working directory is its scratch."""
    scratch = os.getcwd()
    os.environ.update(HOME=scratch, TMPDIR=scratch, USER=_USER, LOGNAME=_USER)
    if threads is not None:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(threads)
        torch.set_num_threads(threads)
    sys.argv = [""]
    sys.pycache_prefix = os.path.join(scratch, "bytecode")  # of a candidate its source runs, not what lies beside it
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    torch.seed()
    random.seed()
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
        signal.signal(number, signal.SIG_DFL)  # tvm-ffi's own handler symbolises for seconds
    faulthandler.enable(all_threads=False)  # says where, and then dies of the same signal
    poison_free_memory()


def prepare_device(device: torch.device) -> None:
    """Start CUDA, and let products be as precise as their dtype."""
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.zeros(1, device=device)


def poison_free_device_memory(device: torch.device) -> None:
    """Leave huge floats in what torch's allocator hands out next, of small blocks and of large ones."""
    blocks = [torch.empty(size, dtype=torch.uint8, device=device).fill_(HUGE) for size in _FREED]
    del blocks


def compile_into(place: str) -> None:
    """Tell whatever compiles where to put it, and to use no processes of its own for that: a fork takes none along."""
    os.environ.update(
        TORCHINDUCTOR_CACHE_DIR=f"{place}/inductor", TORCHINDUCTOR_COMPILE_THREADS="1",
        TRITON_CACHE_DIR=f"{place}/triton", TORCH_EXTENSIONS_DIR=f"{place}/extensions",
        TVM_FFI_CACHE_DIR=f"{place}/tvm-ffi", NUMBA_CACHE_DIR=f"{place}/numba",
    )  # fmt: skip
    with contextlib.suppress(OSError):  # inductor's precompiled header lies in the temporary folder, whatever is said
        os.makedirs(f"{place}/inductor", exist_ok=True)
        os.symlink(f"{place}/inductor", f"torchinductor_{_USER}")


def serve(channel: socket.socket, report: LayerReport) -> None:
    """Answer requests until the grader closes the channel."""
    loaded = LoadedCandidate(channel)
    loaded.reply(
        0, {"is": "ready", "active": list(report.active), "refused": [list(p) for p in report.refused.items()]}
    )
    while True:
        loaded.wait()
        received = wire.receive(channel, 100)
        if received is None:
            return
        request, descriptors = received
        if request["op"] == "map":
            loaded.map(request["buffers"], descriptors)
            continue
        loaded.reply(request["seq"], loaded.answer(request))


class LoadedCandidate:
    """One loaded candidate, the buffers it sees and the outputs that it was asked to hold."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._path = ""
        self._module: object = None
        self._function: Callable[..., object] | None = None
        self._backward: Callable[..., object] | None = None
        self._destination_passing = False
        self._device = torch.device("cpu")
        self._buffers: dict[int, MappedBuffer | OpenedBuffer] = {}
        self._tensors: dict[str, tuple[object, torch.Tensor, Message]] = {}
        self._held: dict[int, Forward] = {}
        self._rehearsed: list[Rehearsed] = []
        self._stage: Stage | None = None  # on a GPU

    def reply(self, seq: int, body: Mapping[str, object]) -> None:
        """Send one reply; output that was printed before is flushed first. Without a channel there is no going on."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        try:
            frame = wire.encode({"seq": seq, **body})
        except wire.WireError as error:
            frame = wire.encode({"seq": seq, **failed("raised", f"its reply was too long: {error}")})
        self._channel.sendall(frame)

    def map(self, buffers: Sequence[tuple[int, int, str]], descriptors: Sequence[int]) -> None:
        """Take over buffers by number, size and handle; where there is none, a descriptor came along."""
        files = iter(descriptors)
        for number, size, handle in buffers:
            self._buffers[number] = (
                OpenedBuffer(bytes.fromhex(handle), size, self._device.index or 0)
                if handle
                else MappedBuffer(next(files), size)
            )

    def wait(self) -> None:
        """Between turns on a GPU, be awake for a moment: waking up would take as long as a small kernel."""
        end = time.monotonic() + AWAKE
        while self._stage is not None and time.monotonic() < end:
            if select.select([self._channel], [], [], 0)[0]:
                return

    def answer(self, request: Message) -> Mapping[str, object]:
        """One request's reply."""
        operation = {
            "load": self.load,
            "call": self.call,
            "backward": self.backward,
            "reread": self.reread,
            "build": self.build,
            "rehearse": self.rehearse,
            "stage": self.stage,
            "turn": self.turn,
        }[request["op"]]
        try:
            reply = operation(request)
            self._settle()
            return reply
        except BaseException as error:
            reason = {"load": "load", "build": "compile"}.get(request["op"], "raised")
            return describe(error, "crashed" if self._is_lost() else reason, self._path)

    def _settle(self) -> None:
        """Wait for the GPU: what went wrong there is told by whatever asks next."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _is_lost(self) -> bool:
        """Whether the GPU will do nothing more for this process: after an illegal access, say."""
        try:
            self._settle()
        except BaseException:
            return True
        return False

    def load(self, request: Message) -> Mapping[str, object]:
        """Import the candidate and find its entry point."""
        self._path = request["path"]
        compile_into(request["kept"] or os.path.join(os.getcwd(), "compiled"))
        self._device = torch.device(request["device"])
        if self._device.type == "cuda":
            prepare_device(self._device)
        binding = request["binding"]
        self._destination_passing = binding == "tvm-ffi"
        match binding:
            case "tvm-ffi":
                self._module = tvm_ffi.load_module(self._path)
            case "torch":
                self._module = load_torch_library(self._path)
            case "reference":
                self._module = import_reference(Path(self._path), request["search"])
                if request["mode"] is not None:
                    self._module = compiled(self._module, request["entry_points"], request["mode"])
            case _:
                self._module = import_candidate(Path(self._path))
        for name in request["entry_points"]:
            function = getattr(self._module, name, None)
            if callable(function):
                self._function = function
                backward = getattr(self._module, BACKWARD, None)
                self._backward = backward if callable(backward) else None
                return {"is": "loaded", "entry_point": name, "backward": self._backward is not None}
        said = _no_entry_point(request["entry_points"], _functions_of(self._module, self._path))
        if binding in _EXPORTS:
            said += f"; {_EXPORTS[binding].format(name=request['entry_points'][0])}"
        raise NoEntryPoint(said)

    def call(self, request: Message) -> Mapping[str, object]:
        """Call the entry point and describe (destination passing: has filled) what comes back."""
        self._forget(request["drop"], request["keep_holds"])
        assert self._function is not None, "load comes first"
        if self._device.type == "cuda":
            poison_free_device_memory(self._device)
        arguments = [self._argument(f"a{index}", each) for index, each in enumerate(request["arguments"])]
        hold = request["hold"]
        targets = [self._tensor(f"o{hold}.{index}", each) for index, each in enumerate(request["outputs"])]
        given, leaves = with_leaves(arguments, () if self._backward else request["leaves"])
        self._held[hold] = Forward(given, leaves, targets=targets)
        if self._destination_passing:
            self._function(*given, *targets)
            self._held[hold].objects += targets
            return {"is": "called", "objects": []}
        objects = listed(self._function(*given))
        self._held[hold].objects += objects
        return {"is": "called", "objects": [claim(each, arguments, targets, i) for i, each in enumerate(objects)]}

    def backward(self, request: Message) -> Mapping[str, object]:
        """The gradients of an earlier call's outputs, described (destination passing: filled); it is run only once.

        `cotangents` are pairs of an output's number and a tensor; `gradients` are tensors to fill, `null` where none is
        due. A `backward` of the candidate's own gives all that there are, autograd those of the leaves.
        """
        self._forget(request["drop"], list(self._held))
        forward = self._held[request["hold"]]
        starts = {index: self._tensor(f"c{index}", each) for index, each in request["cotangents"]}
        targets = [
            None if each is None else self._tensor(f"g{index}", each) for index, each in enumerate(request["gradients"])
        ]
        function = self._function
        assert function is not None, "load comes first"
        if self._backward is None:
            found = differentiated(forward, starts, request["backward"], lambda arguments: listed(function(*arguments)))
        else:
            given = [*starts.values(), *forward.arguments, *forward.objects]
            given += targets if self._destination_passing else []
            for _ in range(2 if request["backward"] == "twice" else 1):
                found = listed(self._backward(*given))
        if self._destination_passing:
            return {"is": "called", "objects": []}
        sources = [*starts.values(), *forward.arguments]
        return {
            "is": "called",
            "objects": [claim(each, sources, targets, index) for index, each in enumerate(found)],
        }

    def reread(self, request: Message) -> Mapping[str, object]:
        """Copy the outputs of an earlier call once more."""
        held = self._held.get(request["hold"], Forward([]))
        pairs = zip(held.objects, held.targets, strict=False)
        return {"is": "copied", "fits": [copied(each, target) for each, target in pairs]}

    def rehearse(self, request: Message) -> Mapping[str, object]:
        """Get calls ready that turns will make; their values come later."""
        quiet_allocator()
        self._leave_stage()
        self._forget(request["drop"], [])
        self._rehearsed = [
            Rehearsed(
                [self._argument(f"t{number}.a{index}", value) for index, value in enumerate(each["arguments"])],
                self._targets(f"t{number}.o", each["outputs"]),
                {index: self._tensor(f"t{number}.c{index}", value) for index, value in each["cotangents"]},
                self._targets(f"t{number}.g", each["gradients"]),
                each["leaves"],
            )
            for number, each in enumerate(request["calls"])
        ]
        return {"is": "timed", "nanoseconds": [], "places": []}

    def turn(self, request: Message) -> Mapping[str, object]:
        """Make the rehearsed calls, or what of them is asked for, and say what the clock here shows."""
        if self._stage is not None:
            taken, places = self._stage.turn(request["part"], request["count"], request["hold"] * 1e-9)
            return {"is": "timed", "nanoseconds": taken, "places": places}
        assert self._function is not None, "load comes first"
        calls, fills = self._rehearsed[: request["count"]], self._destination_passing
        match request["part"]:
            case "forward":
                taken, places = forwards(self._function, calls, fills=fills)
            case "before":
                autograd = self._backward is None
                taken, places = before_backwards(self._function, calls, fills=fills, autograd=autograd)
            case _:
                taken, places = backwards(self._backward, calls, fills=fills)
        return {"is": "timed", "nanoseconds": taken, "places": places}

    def stage(self, request: Message) -> Mapping[str, object]:
        """Get calls on a GPU ready, which are alike: of each tensor only the first is described, and the step from one
        call to the next.
        """
        assert self._function is not None, "load comes first"
        self._leave_stage()
        self._forget(request["drop"], [])
        calls = [self._moved(request, number) for number in range(request["count"])]
        arena = self._buffers[request["arena"]]
        assert isinstance(arena, OpenedBuffer)
        self._stage = Stage(
            calls, request["short"], self._function, self._backward, Arena(arena, request["room"], self._device),
            fills=self._destination_passing, backward=request["part"] == "backward",
        )  # fmt: skip
        places = self._stage.rehearse(capture=request["capture"])
        told = {"captured": places is not None, "apart": self._stage.apart, "places": places or []}
        return {"is": "staged", **told, "issuing": round(self._stage.issuing * 1e9)}

    def _moved(self, request: Message, number: int) -> Rehearsed:
        """The call of this number, by the description of the first."""
        slot = f"t{number}"
        return Rehearsed(
            [
                self._argument(f"{slot}.a{index}", moved(each, number))
                for index, each in enumerate(request["arguments"])
            ],
            self._targets(f"{slot}.o", [moved(each, number) for each in request["outputs"]]),
            {index: self._tensor(f"{slot}.c{index}", moved(each, number)) for index, each in request["cotangents"]},
            self._targets(f"{slot}.g", [each and moved(each, number) for each in request["gradients"]]),
            request["leaves"],
        )

    def _leave_stage(self) -> None:
        if self._stage is not None:
            self._stage.close()
            self._stage = None

    def _targets(self, slot: str, layouts: Sequence[Message | None]) -> list[torch.Tensor | None]:
        return [None if each is None else self._tensor(f"{slot}{index}", each) for index, each in enumerate(layouts)]

    def build(self, request: Message) -> Mapping[str, object]:
        """Let ninja make one file; what compilers say comes with a failure."""
        jobs = os.environ.get("MAX_JOBS") or str(len(os.sched_getaffinity(0)))
        ninja = ["ninja", "-C", request["directory"], "-j", jobs, request["output"]]
        done = subprocess.run(
            ninja, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode != 0:
            said = done.stdout.decode("utf-8", "replace")
            return failed("compile", "the compiler failed", middle_cut(said, LONGEST_COMPILER_OUTPUT))
        return {"is": "built", "path": os.path.join(request["directory"], request["output"])}

    def _forget(self, drop: Sequence[int], keep_holds: Sequence[int]) -> None:
        for number in drop:
            self._buffers.pop(number, None)
        for hold in set(self._held) - set(keep_holds):
            del self._held[hold]
        gone = set(drop)
        for slot in [slot for slot, (_, _, layout) in self._tensors.items() if layout["buffer"] in gone]:
            del self._tensors[slot]

    def _argument(self, slot: str, value: Message) -> object:
        match value["type"]:
            case "tensor":
                return self._tensor(slot, value)
            case "float":
                return float.fromhex(value["value"])
            case "int":
                return int(value["value"])
            case _:
                return value["value"]

    def _tensor(self, slot: str, layout: Message) -> torch.Tensor:
        """The tensor at a slot: the same object as last time, if its layout is the same and nobody bent it."""
        known = self._tensors.get(slot)
        shape, strides, offset = tuple(layout["shape"]), tuple(layout["strides"]), layout["offset"]
        dtype, buffer = getattr(torch, layout["dtype"]), self._buffers[layout["buffer"]]
        begin = layout["begin"]
        buffer.fence(*(begin + edge * dtype.itemsize for edge in _edges(shape, strides, offset)))
        if known is not None and known[2] == layout and _unbent(known[1], shape, strides, offset, known[0]):
            return known[1]
        tensor = tensor_over(buffer.storage(layout["used"], begin), dtype, shape, strides, offset)
        self._tensors[slot] = (torch.Tensor.data_ptr(tensor), tensor, layout)
        return tensor


def moved(value: Message, number: int) -> Message:
    """The description of an argument of the call of this number, by that of the first call's."""
    return value if value["type"] != "tensor" else {**value, "begin": value["begin"] + number * value["step"]}


def _edges(shape: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, int]:
    """Where the first element of a tensor begins in its storage, and where the last one ends, in elements."""
    if 0 in shape:
        return offset, offset
    return offset, offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def _unbent(
    tensor: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, pointer: object
) -> bool:
    return (
        tuple(tensor.shape) == shape
        and tensor.stride() == strides
        and tensor.storage_offset() == offset
        and tensor.data_ptr() == pointer
        and not tensor.requires_grad
        and not tensor.__dict__
    )


def _functions_of(module: object, path: str) -> list[str]:
    """Names of the functions that a candidate has: of a module its own, of a library what it exports."""
    if isinstance(module, SimpleNamespace):
        return sorted(vars(module))
    if not isinstance(module, ModuleType):
        exported = re.findall(rb"(?<=\0)__tvm_ffi_([A-Za-z]\w*)(?=\0)", Path(path).read_bytes())
        return sorted({name.decode() for name in exported})
    held = [(str(name), value) for name, value in list(vars(module).items()) if callable(value)]
    return [
        name
        for name, value in held
        if not name.startswith("_") and str(getattr(value, "__module__", "")).partition(".")[0] == MODULE_NAME
    ]


def _no_entry_point(wanted: Sequence[str], found: Sequence[str]) -> str:
    names = ", ".join(bounded(name, 80) for name in found[:_MOST_NAMES]) or "none at all"
    if len(found) > _MOST_NAMES:
        names += f" and {len(found) - _MOST_NAMES} more"
    return f"it has no function named {' or '.join(wanted)}; it has {names}"


def import_candidate(path: Path) -> ModuleType:
    """Import a `.py` file, or a folder with an `__init__.py`, under a name that says nothing."""
    package = path.is_dir()
    spec = importlib.util.spec_from_file_location(
        MODULE_NAME,
        path / "__init__.py" if package else path,
        submodule_search_locations=[str(path)] if package else None,
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    return module


def load_torch_library(path: str) -> SimpleNamespace:
    """Load a library in torch's form: the functions of its Python module, and the operators that it registers."""
    before = set(torch._C._dispatch_get_all_op_names())
    functions: dict[str, Callable[..., object]] = {}
    if initial := re.search(rb"(?<=\0)PyInit_([A-Za-z_]\w*)(?=\0)", Path(path).read_bytes()):
        loader = importlib.machinery.ExtensionFileLoader(initial[1].decode(), path)
        spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        functions = {name: value for name, value in vars(module).items() if name[0] != "_" and callable(value)}
    else:
        torch.ops.load_library(path)
    for operator in sorted(set(torch._C._dispatch_get_all_op_names()) - before):
        namespace, _, overload = operator.partition("::")
        name = overload.partition(".")[0]
        functions.setdefault(name, getattr(getattr(torch.ops, namespace), name))
    return SimpleNamespace(**functions)
