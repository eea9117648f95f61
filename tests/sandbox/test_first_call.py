"""What compiles at import or at the first call has the time of a build, and keeps what it made, to no other's harm."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pytest_kbench import Grader, Settings
from pytest_kbench.build import first_call
from pytest_kbench.build.cache import Store
from pytest_kbench.candidate import Candidate
from pytest_kbench.record import Reason
from pytest_kbench.sandbox import kept
from pytest_kbench.sandbox.host import Child, Failure, Limits, Program, Returned, Sandbox, ValueArgument

from .conftest import X, argument, spec

HONEST = Path(__file__).parents[1] / "honest"
RELU = Path(__file__).parents[2] / "tasks" / "relu.py"
CASE = "dims(rows=3,columns=65) dtype(float32) seed(5c50368c024c7af1)"
OBEDIENT = """
import ctypes, os, signal, time
from pathlib import Path
PLACE = Path(os.environ["TORCH_EXTENSIONS_DIR"]).parent

def forward(x, code):
    exec(code, globals())
    return x
"""


class Keeper:
    """Starts children of a candidate that does what it is told, all of one content."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.place = folder / "kept" / "content"
        self.path = folder / "obedient.py"
        self.path.write_text(OBEDIENT)
        self.sandbox = sandbox
        self.children: list[Child] = []

    @property
    def folder(self) -> Path:
        return self.place.with_name("content.0")

    def start(self, limits: Limits | None = None, compiles: bool = True, place: Path | None = None) -> Child:
        program = Program("python", self.path, ("forward",), compiles=compiles, kept=place or self.place)
        child = self.sandbox.start(program, limits or Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        assert isinstance(child, Child), child
        self.children.append(child)
        return child

    def do(self, code: str, limits: Limits | None = None) -> Returned | Failure:
        """In a child of its own, which then ends."""
        with self.start(limits) as child:
            return ask(child, code)


def ask(child: Child, code: str, seconds: float = 10, overtime: float = 0) -> Returned | Failure:
    return child.call([argument(X), ValueArgument("code", code)], [spec(X)], seconds=seconds, overtime=overtime)


def told(answer: Returned | Failure) -> str:
    """The text of the exception that was asked for."""
    assert isinstance(answer, Failure), answer
    assert answer.reason is Reason.RAISED, answer
    return answer.message


@pytest.fixture
def keeper(sandbox: Sandbox, tmp_path: Path) -> Iterator[Keeper]:
    keeper = Keeper(sandbox, tmp_path)
    yield keeper
    for child in keeper.children:
        child.close()


WRITE = "(PLACE / 'made').write_text('by a compiler')"
READ = "raise ValueError((PLACE / 'made').read_text())"
LIST = "raise ValueError(' '.join(sorted(os.listdir(PLACE))))"


# What is kept.


def test_what_a_child_made_is_there_for_the_next(keeper: Keeper) -> None:
    assert isinstance(keeper.do(f"(PLACE / 'deep').mkdir(); {WRITE}"), Returned)
    assert isinstance(
        keeper.do("(PLACE / 'made').open('a').write(', twice'); (PLACE / 'deep/too').write_text('')"), Returned
    )
    assert told(keeper.do(READ)) == "ValueError: by a compiler, twice"


def test_folders_on_disk_are_the_graders_alone(keeper: Keeper) -> None:
    keeper.do(f"os.umask(0); {WRITE}")
    assert stat.S_IMODE(keeper.place.parent.stat().st_mode) == 0o700
    assert (keeper.folder / "made").stat().st_uid == os.geteuid()
    assert stat.S_IMODE((keeper.folder / "made").stat().st_mode) == 0o600


def test_two_children_at_once_have_a_folder_each(keeper: Keeper) -> None:
    with keeper.start() as first, keeper.start() as second:
        assert isinstance(ask(first, WRITE), Returned)
        assert "made" not in told(ask(second, LIST))
        assert isinstance(ask(second, "(PLACE / 'mine').write_text('')"), Returned)
        reach = f"os.listdir({str(keeper.folder)!r})"
        assert "PermissionError" in told(ask(second, reach))
    assert (keeper.folder / "made").exists()
    assert (keeper.place.with_name("content.1") / "mine").exists()


def test_beyond_so_many_at_once_children_use_their_scratch(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "AT_ONCE", 1)
    with keeper.start() as first, keeper.start() as second:
        assert first.kept is not None
        assert second.kept is None
        assert isinstance(ask(second, f"PLACE.mkdir(exist_ok=True); {WRITE}"), Returned)


@pytest.mark.parametrize(
    "attack",
    [
        "os.listdir(there)",
        "Path(there, 'made').read_text()",
        "Path(there, 'made').write_text('poison')",
        "Path(there, 'new').write_text('poison')",
        "os.rename(PLACE / 'mine', Path(there, 'made'))",
        "os.link(Path(there, 'made'), PLACE / 'linked')",
        "os.symlink(there, PLACE / 'link'); os.listdir(PLACE / 'link')",
        "os.rename(there, PLACE / 'stolen')",
        "os.unlink(there + '.lock')",
        "os.listdir(os.path.dirname(there))",
    ],
)
def test_another_contents_folder_is_out_of_reach(keeper: Keeper, attack: str) -> None:
    assert isinstance(keeper.do(WRITE), Returned)
    with keeper.start(place=keeper.place.with_name("other")) as other:
        ask(other, "(PLACE / 'mine').write_text('')")
        refusal = told(ask(other, f"there = {str(keeper.folder)!r}; {attack}"))
    assert "PermissionError" in refusal or "Invalid cross-device link" in refusal
    assert told(keeper.do(READ)) == "ValueError: by a compiler"


def test_links_pipes_locks_and_rights_are_not_kept(keeper: Keeper, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o640)
    before = secret.stat()
    made = keeper.do(
        f"os.umask(0); {WRITE}; os.symlink({str(secret)!r}, PLACE / 'link'); os.symlink('/', PLACE / 'root')\n"
        "os.mkfifo(PLACE / 'pipe'); (PLACE / 'a').mkdir(); os.symlink('..', PLACE / 'a' / 'up')\n"
        "os.close(os.open(PLACE / 'setuid', os.O_CREAT | os.O_WRONLY, 0o6755))\n"
        "os.mkdir(PLACE / 'closed', 0); (PLACE / 'x.lock').write_text(''); (PLACE / 'a' / 'lock').write_text('')\n"
        "(PLACE / 'once').write_text(''); os.link(PLACE / 'once', PLACE / 'twice')\n"
    )
    assert isinstance(made, Returned), made
    left = {path.relative_to(keeper.folder).as_posix() for path in keeper.folder.rglob("*")}
    assert left - {"inductor", "once", "twice"} == {"made", "setuid", "a", "closed"}
    assert len(left & {"once", "twice"}) <= 1
    assert stat.S_IMODE((keeper.folder / "setuid").stat().st_mode) == 0o700
    after = secret.stat()
    assert (after.st_uid, after.st_mode, secret.read_text()) == (before.st_uid, before.st_mode, "secret")


def test_a_child_that_dies_while_it_may_be_writing_leaves_nothing(keeper: Keeper) -> None:
    assert isinstance(keeper.do(f"{WRITE}; os.kill(os.getpid(), signal.SIGKILL)"), Failure)
    assert "made" not in told(keeper.do(LIST))


def test_what_was_made_before_a_child_dies_is_kept(keeper: Keeper) -> None:
    with keeper.start() as child:
        assert isinstance(ask(child, WRITE), Returned)
        time.sleep(0.05)
        assert isinstance(ask(child, "os.kill(os.getpid(), signal.SIGSEGV)"), Failure)
    with keeper.start() as child:
        assert isinstance(ask(child, "pass"), Returned)
        time.sleep(0.05)
        late = ask(child, "while True: pass", seconds=0.2)
        assert isinstance(late, Failure)
        assert late.reason is Reason.TIMEOUT
    assert told(keeper.do(READ)) == "ValueError: by a compiler"


def test_a_child_that_never_came_back_from_a_call_leaves_nothing(keeper: Keeper) -> None:
    keeper.do(f"{WRITE}; raise ValueError")
    assert "made" not in told(keeper.do(LIST))


def test_a_folder_whose_grader_was_killed_is_emptied(keeper: Keeper) -> None:
    keeper.do(WRITE)
    lent = kept.lend(keeper.place)
    assert lent is not None
    assert (lent.path / "made").exists()
    lent._lock.close()  # as the kernel does it
    again = kept.lend(keeper.place)
    assert again is not None
    assert list(again.path.iterdir()) == []
    again.take_back(ended=True, asked=None, sound=True)


def test_where_something_may_still_write_the_folder_is_set_aside(keeper: Keeper) -> None:
    lent = kept.lend(keeper.place)
    assert lent is not None
    lent.take_back(ended=False, asked=None, sound=True)
    assert not lent.path.exists()
    assert len(list(keeper.place.parent.glob("content.0.gone-*"))) == 1


def test_no_depth_and_no_rights_keep_a_folder_from_being_removed(keeper: Keeper) -> None:
    dig = "os.chdir(PLACE)\nfor _ in range(500): os.mkdir('d' * 100); os.chdir('d' * 100)\nos.mkdir('x', 0)"
    keeper.do(f"{WRITE}\n{dig}")
    assert not keeper.folder.exists()
    assert isinstance(keeper.do(WRITE), Returned)
    assert list(keeper.place.parent.glob("*.gone-*")) == []


@pytest.mark.parametrize(
    ("bound", "value", "code"),
    [
        ("MOST_ENTRIES", 100, "for n in range(200): (PLACE / str(n)).write_text('')"),
        ("MOST_BYTES", 1 << 20, "open(PLACE / 'sparse', 'w').truncate(2 << 20)"),
        ("MOST_DEPTH", 4, "(PLACE / 'a/b/c/d/e/f').mkdir(parents=True)"),
    ],
)
def test_what_is_too_much_is_not_kept(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, code: str
) -> None:
    monkeypatch.setattr(kept, bound, value)
    assert isinstance(keeper.do(f"{WRITE}\n{code}"), Returned)
    assert not keeper.folder.exists()


def test_what_takes_too_long_to_remove_is_out_of_the_way(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.do("for n in range(50): (PLACE / str(n)).mkdir()")
    monkeypatch.setattr(kept, "REMOVAL", 0.0)
    with pytest.raises(TimeoutError):
        kept.remove(keeper.folder)
    assert not keeper.folder.exists()
    monkeypatch.undo()
    kept._tidied.clear()
    monkeypatch.setattr(kept, "TIDY_EVERY", -1.0)
    assert isinstance(keeper.do(WRITE), Returned)
    assert list(keeper.place.parent.glob("*.gone-*")) == []


def test_writing_more_than_a_build_may_ends_the_child(keeper: Keeper) -> None:
    fill = "f = open(PLACE / 'f', 'wb')\nwhile True: f.write(bytes(1 << 16)); time.sleep(0.001)"
    found = keeper.do(fill, Limits(memory_bytes=1 << 30, build_bytes=4 << 20))
    assert isinstance(found, Failure)
    assert (found.reason, found.message) == (Reason.MEMORY, "wrote more than 4 MiB to disk")
    assert not keeper.folder.exists()


def test_folders_that_are_too_deep_to_be_looked_through_end_the_child(keeper: Keeper) -> None:
    found = keeper.do("os.chdir(PLACE)\nwhile True: os.mkdir('d' * 100); os.chdir('d' * 100); time.sleep(0.005)")
    assert isinstance(found, Failure)
    assert (found.reason, found.message) == (Reason.MEMORY, "made folders deeper than a path can say")


def test_empty_files_without_end_end_the_child_too(keeper: Keeper) -> None:
    fill = "import itertools\nfor n in itertools.count(): os.close(os.open(PLACE / str(n), os.O_CREAT))"
    found = keeper.do(fill, Limits(memory_bytes=1 << 30, build_bytes=4 << 20))
    assert isinstance(found, Failure)
    assert found.reason is Reason.MEMORY


@pytest.mark.parametrize("trouble", ["full", "a file", "somebody else's"])
def test_without_a_folder_a_child_uses_its_scratch(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    match trouble:
        case "full":
            monkeypatch.setattr(kept, "LEAST_FREE", 1 << 62)
        case "a file":
            keeper.place.parent.write_text("")
        case _:
            monkeypatch.setattr(kept.os, "geteuid", lambda: 4711)
    lent = kept.lend(keeper.place)
    monkeypatch.undo()
    assert lent is None
    if trouble == "a file":
        with keeper.start() as child:
            assert child.kept is None
            assert isinstance(ask(child, f"PLACE.mkdir(exist_ok=True); {WRITE}"), Returned)


def test_old_folders_go_and_those_beyond_the_bound_for_all(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "first", "second", "third"):
        with keeper.start(place=keeper.place.with_name(name)) as child:
            ask(child, "(PLACE / 'made').write_bytes(bytes(40_000))")
    root = keeper.place.parent
    for age, name in enumerate(("third", "second", "first")):
        os.utime(root / f"{name}.0.lock", (time.time() - age, time.time() - age))
    os.utime(root / "old.0.lock", (0, 0))
    monkeypatch.setattr(kept, "MOST_OF_ALL", 100_000)
    monkeypatch.setattr(kept, "TIDY_AFTER", 100_000)
    lent = kept.lend(keeper.place)
    assert lent is not None
    lent.take_back(ended=True, asked=None, sound=True)
    left = {path.name for path in root.iterdir()}
    assert {"second.0", "third.0"} <= left
    assert not left & {"old.0", "old.0.lock", "first.0", "first.0.lock"}


# Time.

FORKED = (
    "pid = os.fork()\nif not pid:\n  ctypes.CDLL(None).prctl(15, b'cc1plus'); time.sleep({}); os._exit(0)\nos.wait()"
)


def timed(child: Child, code: str, overtime: float) -> tuple[Returned | Failure, float]:
    begun = time.monotonic()
    return ask(child, code, seconds=0.5, overtime=overtime), time.monotonic() - begun


def test_a_candidate_that_names_a_compiler_may_take_overtime(keeper: Keeper) -> None:
    found, _ = timed(keeper.start(), "time.sleep(1.2)", 10)
    assert isinstance(found, Returned), found


def test_overtime_ends(keeper: Keeper) -> None:
    found, seconds = timed(keeper.start(), "while True: pass", 1.5)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TIMEOUT
    assert found.message == "no answer within 0.5 s, nor in 1.5 s more for what it compiles"
    assert 1.9 < seconds < 4


def test_a_candidate_that_merely_spins_has_no_overtime(keeper: Keeper) -> None:
    found, seconds = timed(keeper.start(compiles=False), "while True: pass", 30)
    assert isinstance(found, Failure)
    assert (found.reason, found.message) == (Reason.TIMEOUT, "no answer within 0.5 s")
    assert seconds < 2


def test_while_a_compiler_runs_in_its_tree_any_candidate_has(keeper: Keeper) -> None:
    found, _ = timed(keeper.start(compiles=False), FORKED.format(1.2), 10)
    assert isinstance(found, Returned), found
    found, seconds = timed(keeper.start(compiles=False), f"{FORKED.format(0.7)}\nwhile True: pass", 30)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TIMEOUT
    assert seconds < 5
    found, seconds = timed(keeper.start(compiles=False), FORKED.format(60), 1.5)
    assert isinstance(found, Failure)
    assert 1.9 < seconds < 4


def test_the_time_for_compiling_is_given_once_to_a_candidate_not_to_each_call(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import torch\n\ndef relu(x):\n  while True: torch.compile\n")
    settings = Settings(timeout=0.5, build_timeout=3.0, cache=tmp_path / "cache", max_failures=0)
    with Grader(settings) as grader:
        grader.layers()
        begun = time.monotonic()
        verdict = grader.grade(RELU, tmp_path / "hangs.py", checks=["correct"])
    assert verdict.reason is Reason.TIMEOUT
    assert time.monotonic() - begun < 3.0 + 3 * 0.5 + 5
    assert [record.reason for record in verdict.records].count(Reason.TIMEOUT) == 3


# Who compiles.


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\n@torch.compile(dynamic=True)\ndef f(x): return x", True),
        ("import torch as t\nf = t.compile(lambda x: x)", True),
        ("from torch import compile as jit\nf = jit(lambda x: x)", True),
        ("import torch._inductor.config", True),
        ("from torch.utils.cpp_extension import load_inline", True),
        ("import torch.utils.cpp_extension as e", True),
        ("import tvm_ffi\nm = tvm_ffi.cpp.load_inline('m')", True),
        ("import tvm_ffi.cpp", True),
        ("def f(x):\n  import numba", True),
        ("import triton.language as tl", True),
        ("model.compile()", True),
        ("import subprocess", True),
        ("import re\nf = re.compile('x')", False),
        ("import torch\ndef compile(x): return torch.relu(x)", False),
        ("text = 'torch.compile'", False),
        ("import torch.nn.functional as F\nF.relu", False),
        ("not python", False),
    ],
)
def test_a_source_that_names_a_compiler_is_known_by_it(tmp_path: Path, source: str, expected: bool) -> None:
    (tmp_path / "mine.py").write_text(source)
    assert first_call.compiles(Candidate.at(tmp_path / "mine.py")) is expected


def test_a_place_belongs_to_the_content_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")

    def place(name: str, text: str, helper: str | None = None) -> Path | None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(text)
        if helper is not None:
            (folder / "helper.txt").write_text(helper)
        return first_call.folder(Candidate.at(folder), store)

    assert place("a", "x = 1") == place("b", "x = 1")
    assert len({place("c", "x = 2"), place("d", "x = 1", "h"), place("e", "x = 1", "i"), place("f", "x = 1")}) == 4


# The whole.

REMEMBERS = """
import os, torch.utils.cpp_extension
from pathlib import Path
made = Path(os.environ["TORCH_EXTENSIONS_DIR"]).parent / "made"
{} made.exists() and made.read_text() != "good":
    raise OSError("what was compiled cannot be loaded")
made.parent.mkdir(exist_ok=True)
made.write_text("good")
"""


@pytest.mark.parametrize("when", ["import", "call"])
def test_what_is_corrupt_costs_a_candidate_nothing(tmp_path: Path, when: str) -> None:
    candidate = tmp_path / "remembers.py"
    body = REMEMBERS.format("if")
    if when == "import":
        candidate.write_text(f"{body}\ndef relu(x): return torch.relu(x)\n")
    else:
        indented = body.replace("\n", "\n    ")
        candidate.write_text(
            f"import torch, torch.utils.cpp_extension\ndef relu(x):{indented}\n    return torch.relu(x)"
        )
    settings = Settings(cache=tmp_path / "cache", max_failures=1)
    for _ in range(2):
        with Grader(settings) as grader:
            assert grader.grade(RELU, candidate, checks=["correct"], cases=[CASE]).outcome == "passed"
        made = next((tmp_path / "cache" / "kept").glob("*/made"), None)
        if made is not None:
            made.write_text("bad")
    assert made is None, "what was bad is gone, and the child that passed kept nothing"
    with Grader(settings) as grader:
        assert grader.grade(RELU, candidate, checks=["correct"], cases=[CASE]).outcome == "passed"
    assert next((tmp_path / "cache" / "kept").glob("*/made")).read_text() == "good"


FILLS = """
import errno, os, torch, torch.utils.cpp_extension
calls = 0
def relu(x):
    global calls
    calls += 1
    if calls > 1 and "/kept/" in os.environ["TORCH_EXTENSIONS_DIR"]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return torch.relu(x)
"""


def test_a_disk_that_fills_up_costs_a_candidate_nothing(tmp_path: Path) -> None:
    (tmp_path / "fills.py").write_text(FILLS)
    with Grader(Settings(cache=tmp_path / "cache")) as grader:
        cases = [CASE, CASE.replace("columns=65", "columns=66")]
        verdict = grader.grade(RELU, tmp_path / "fills.py", checks=["correct"], cases=cases)
    assert verdict.outcome == "passed", verdict.message


def compiled_once(sandbox: Sandbox, path: Path, entry_point: str, folder: Path, seconds: float) -> None:
    """Two children, one after the other: the second makes nothing anew."""
    place = folder / "kept" / "content"
    program = Program("python", path, (entry_point,), compiles=True, kept=place)
    values = torch.rand(3, 4)

    def libraries() -> dict[str, int]:
        found = {path.as_posix(): path.stat().st_mtime_ns for path in place.parent.glob("content.0/**/*.so")}
        assert found, "nothing was kept"
        return found

    def once() -> None:
        child = sandbox.start(program, Limits(), time.monotonic() + seconds)
        assert isinstance(child, Child), child
        with child:
            returned = child.call([argument(values)], [spec(values)], seconds=5, overtime=seconds)
            assert isinstance(returned, Returned), returned

    once()
    before = libraries()
    once()
    assert libraries() == before


def test_a_second_child_finds_what_load_inline_made(sandbox: Sandbox, tmp_path: Path) -> None:
    compiled_once(sandbox, HONEST / "relu" / "load_inline.py", "relu", tmp_path, 120)


@pytest.mark.slow
def test_a_second_child_finds_what_torch_compile_made(sandbox: Sandbox, tmp_path: Path) -> None:
    compiled_once(sandbox, HONEST / "softmax" / "compiled.py", "softmax", tmp_path, 300)


TORCHS_OWN = """
import torch
from torch.utils.cpp_extension import load_inline
module = load_inline("mine", cpp_sources="torch::Tensor mine(torch::Tensor x) { return x.relu(); }", functions=["mine"])
def relu(x): return module.mine(x)
"""


@pytest.mark.slow
def test_a_second_child_finds_what_torchs_own_load_inline_made(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(TORCHS_OWN)
    compiled_once(sandbox, tmp_path / "own.py", "relu", tmp_path, 300)
