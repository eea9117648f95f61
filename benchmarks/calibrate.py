"""How far honest kernels stay from their bounds, on cases as the fuzz check draws them.

    python benchmarks/calibrate.py [--cases 20000] [--jobs 2] [--seed HEX] [--only PART] [--sensitivity] [--json FILE]

All shipped candidates and those in `tests/honest` that a CPU runs share the cases of each dtype that they take, through
the sandbox and compared as the grader does. Prints a table with a row per family of operators and dtype; then every
failure, with the command that repeats it; and exits with 1 if there is any: a false alarm, or no honest candidate. With
`--sensitivity` a second table says of each constant of the bound how many cases that pass would fail with half of it.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import itertools
import json
import math
import multiprocessing
import os
import random
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import hypothesis
import numpy as np
import torch

from pytest_kbench.argument import Tensor
from pytest_kbench.build.cache import Store
from pytest_kbench.build.program import needs_cuda
from pytest_kbench.candidate import Candidate, find
from pytest_kbench.case import DTYPE_NAMES, Call, Case, NamedCase
from pytest_kbench.checks import fuzz
from pytest_kbench.checks.bench import Answer, Bench, Stages
from pytest_kbench.checks.downgrade import downgrade
from pytest_kbench.checks.examine import examine
from pytest_kbench.checks.judge import outputs_of
from pytest_kbench.environment import environment
from pytest_kbench.formats.native import load
from pytest_kbench.options import EXAMPLES, Settings
from pytest_kbench.oracle import tolerance, truth
from pytest_kbench.oracle.compare import compare
from pytest_kbench.oracle.coverage import derive
from pytest_kbench.oracle.golden import golden
from pytest_kbench.oracle.precision import relative_error
from pytest_kbench.oracle.strategies import cases as strategy
from pytest_kbench.record import HOPELESS, Reason, Record
from pytest_kbench.sandbox.host import Returned, Sandbox
from pytest_kbench.task import Task
from pytest_kbench.values import Masks

ROOT = Path(__file__).resolve().parents[1]
TASKS = (ROOT / "tasks", ROOT / "tests/tasks")
CANDIDATES = (ROOT / "candidates", ROOT / "tests/honest")
FAMILIES = {
    "elementwise": "relu leaky_relu gelu silu clip scaled_add positive_part",
    "rows reduced": "softmax log_softmax mnist_cross_entropy cross_entropy layernorm layer_norm llama_rmsnorm mean "
    "row_max recurrence",
    "products": "mnist_linear mnist_linear_relu unet_linear matmul row_matmul llama_ffw attention",
    "convolutions": "unet_conv2d mnist_conv_relu_pool resnet_block",
    "pooling": "mnist_pool",
}
FAMILY = {task: family for family, tasks in FAMILIES.items() for task in tasks.split()}
RULE = {name: getattr(tolerance.Tolerance(), name) for name in ("elementwise", "normwise", "ulps")}
NAMES = ("_DRIFT", "_WANDER", "_COARSE", "_ROUNDED", "_MILD", "_VOID", "_LUCK")
MODULE = {name: getattr(tolerance, name) for name in NAMES}
PART = 50  # most cases per dtype and candidate that a process takes at a time
LEAST = 64  # elements of outputs without which eager's error may be small by chance


class Fact(NamedTuple):
    """One of a candidate's `cases`, `refused` calls, `failures`, or cases that half of a constant would fail.

    Or the largest `error / bound` of a call, or the norm of its error over eager's: `error / eager's`. A failure has
    its text: what it is, and the command that repeats it.
    """

    candidate: str
    dtype: str
    what: str
    value: float = 1.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Work for one process: so many cases of a task per dtype, for each candidate that takes it."""

    place: Path
    candidates: Sequence[Candidate]
    settings: Settings
    sensitivity: bool
    wanted: Mapping[str, int] = field(default_factory=dict)
    number: int = 0


class Listener(Bench):
    """A bench that keeps what its candidate answered in a case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = str(self.candidate.path.relative_to(ROOT))
        self.answers: list[Answer] = []

    def call(self, call: Call, hold: int, stages: Stages | None = None) -> Answer:
        self.answers.append(super().call(call, hold, stages))
        return self.answers[-1]

    def returned(self) -> Iterator[tuple[Answer, list[torch.Tensor]]]:
        """The answers that can be compared, with their outputs."""
        for each in self.answers:
            outputs = outputs_of(self.task, each.returned) if isinstance(each.returned, Returned) else []
            if outputs and [one.shape for one in outputs] == [one.shape for one in each.truth.golden]:
                yield each, outputs


def drawn(task: Task, wanted: Mapping[str, int], seed: int) -> list[Case]:
    """So many distinct cases per dtype (of the first call), out of as many rounds of the fuzz check as that takes."""
    pools: dict[str, dict[str, Case]] = {dtype: {} for dtype in task.dtypes}

    @hypothesis.settings(
        max_examples=EXAMPLES,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        database=None,
        deadline=None,
        derandomize=False,
    )
    @hypothesis.given(strategy(task, "cpu"))
    def keep(case: Case) -> None:
        pools[case.calls[0].dtype][str(case)] = case

    rounds = itertools.count()
    while any(len(pools[dtype]) < count for dtype, count in wanted.items()):
        hypothesis.seed(derive(seed, "fuzz", task.name, next(rounds)))(keep)()
    chance = random.Random(seed)  # the first cases of a round are plainer than the others
    return [case for dtype, count in wanted.items() for case in chance.sample([*pools[dtype].values()], count)]


@functools.cache
def sandbox(threads: int | None) -> Sandbox:
    """This process's own."""
    made = Sandbox(threads=threads)
    atexit.register(made.close)
    return made


@contextmanager
def benches(part: Part) -> Iterator[list[Listener]]:
    """One for each candidate, which knows what dtypes that takes: no call to find out falls into a case."""
    if part.settings.threads is not None:
        torch.set_num_threads(part.settings.threads)
    common = part.settings, sandbox(part.settings.threads), Store(part.settings.cache), truth.Truths()
    task, _ = load(part.place)
    with ExitStack() as undo:
        made = [Listener(task, each, *common) for each in part.candidates]
        for bench in made:
            undo.callback(bench.close)
            list(map(bench.takes, task.dtypes))
        yield made


def taken(part: Part) -> Counter[str]:
    """How many of the candidates take each dtype."""
    with benches(part) as made:
        return Counter(dtype for bench in made for dtype in bench.task.dtypes if bench.takes(dtype))


def measured(part: Part) -> list[Fact]:
    """Grade the cases of a part; case by case, so that the truth about one is found once for all candidates."""
    facts: list[Fact] = []
    lost = set()
    with benches(part) as made:
        task = made[0].task
        for case in drawn(task, part.wanted, derive(part.settings.seed, task.name, part.number)):
            dtype, right = case.calls[0].dtype, []
            for bench in (each for each in made if each.takes(dtype) and each.name not in lost):
                bench.answers.clear()
                record = examine(bench, NamedCase("", case), "fuzz")
                facts += [Fact(bench.name, dtype, "cases"), *measure(bench, record)]
                if record.status != "failed":
                    right.append(bench)
                    continue
                facts.append(failure(bench, record, part.place))
                if record.reason in (*HOPELESS, Reason.TIMEOUT):
                    lost.add(bench.name)
            if part.sensitivity:
                calls = {answer.call: answer for bench in right for answer, _ in bench.returned()}
                fragile = {each for answer in calls.values() for each in beyond(right, answer)}
                facts += [Fact(name, dtype, constant) for name, constant in fragile]
        for bench in made if part.number == 0 else ():
            if bench.name not in lost and (coarse := downgrade(bench)) is not None:
                facts.append(failure(bench, coarse, part.place))
    return facts


def measure(bench: Listener, record: Record) -> Iterator[Fact]:
    """What was refused in a case, and how far off was what was answered; beside eager only for plain values."""
    for answer in bench.answers if record.status == "skipped" else ():
        if not isinstance(answer.returned, Returned):
            yield Fact(bench.name, answer.call.dtype, "refused")
    masks = {each.name for each in bench.task.tensors if isinstance(each, Tensor) and isinstance(each.values, Masks)}
    for answer, outputs in bench.returned():
        exact, dtype = answer.truth.golden, answer.call.dtype
        compared = [compare(*each, output=0) for each in zip(outputs, exact, answer.truth.bounds, strict=True)]
        ratio = max(max(each.ratio or 0.0, each.norm_ratio or 0.0) for each in compared)
        yield Fact(bench.name, dtype, "error / bound", ratio)
        plain = all(name in masks for name, _ in answer.call.plans) and sum(each.numel() for each in exact) >= LEAST
        if plain and (eager := relative_error(answer.question.eager.outputs, exact)):
            yield Fact(bench.name, dtype, "error / eager's", relative_error(outputs, exact) / eager)


def failure(bench: Listener, record: Record, place: Path) -> Fact:
    """A failure, tried once more in a new child, as its command does."""
    case = Case.parse(record.case or "")
    bench.renew()
    again = fuzz.check(bench, NamedCase("", case)).status == "failed"
    folder = bench.candidate.path.parents[1].relative_to(ROOT)
    words = f"pytest {place.relative_to(ROOT)} --kbench --kbench-candidates={folder} --kbench-checks=fuzz".split()
    words += [f"--kbench-candidate={bench.candidate.name}", f"--kbench-case={case}"]
    first = record.message.partition("\n")[0]
    text = f"{first}{'' if again else ' (not again)'}\n{shlex.join(words)}"
    return Fact(bench.name, case.calls[0].dtype, "failures", text=text)


def halves() -> Iterator[tuple[str, float, dict[str, Any]]]:
    """The name of each constant, its value, and the module's constants with half of it: none if it is the rule's."""
    for name, value in RULE.items():
        yield name, value, {}
    for name, value in MODULE.items():
        if not isinstance(value, tuple):
            yield name, value, {name: value / 2}
            continue
        for index, part in enumerate(value):
            yield f"{name}[{index}]", part, {name: (*value[:index], part / 2, *value[index + 1 :])}


def put(constants: Mapping[str, Any]) -> None:
    """Set constants of the bound's module; one of them is the default of a parameter too."""
    vars(tolerance).update(constants)
    tolerance._pool.__defaults__ = (tolerance._LUCK,)


def beyond(made: Sequence[Listener], asked: Answer) -> Iterator[tuple[str, str]]:
    """Which candidates, of those that got a call right, would fail it with half of which constant."""
    task, call, question = made[0].task, asked.call, asked.question
    rule = truth.rule_of(task, made[0].settings)
    known = golden(task, question.arguments, call.dtype, call.seed, question.eager)
    given = [(bench.name, outputs) for bench in made for answer, outputs in bench.returned() if answer.call == call]
    with mock.patch.object(truth, "golden", return_value=known):
        for constant, _, changed in halves():
            put(changed)
            try:
                half = rule if changed else replace(rule, **{constant: getattr(rule, constant) / 2})
                bounds = truth.answer(task, call, question, half).bounds
            finally:
                put(MODULE)
            for name, outputs in given:
                judged = zip(outputs, known.golden, bounds, strict=True)
                if not all(compare(*each, output=0).ok for each in judged):
                    yield name, constant


def honest(only: str) -> dict[Path, list[Candidate]]:
    """By task file, the candidates whose `task/name` has `only` in it."""
    found: dict[Path, list[Candidate]] = defaultdict(list)
    for folder in sorted(each for root in CANDIDATES for each in root.iterdir() if each.name[0] not in "_."):
        place = next(path for root in TASKS if (path := root / f"{folder.name}.py").is_file())
        for each in find(folder):
            if not isinstance(each, Candidate):
                raise each
            if not needs_cuda(each) and only in f"{folder.name}/{each.name}":
                found[place].append(each)
    return found


def shared(whole: Sequence[Part], takers: Sequence[Counter[str]], cases: int) -> list[Part]:
    """The parts of a run: each candidate that takes a dtype gets its share of the cases."""
    share = {dtype: math.ceil(cases / count) for dtype, count in sum(takers, Counter[str]()).items()}
    turns = math.ceil(max(share.values()) / PART)
    until = {dtype: [each * count // turns for each in range(turns + 1)] for dtype, count in share.items()}
    return [
        replace(part, number=turn, wanted={each: until[each][turn + 1] - until[each][turn] for each in dtypes})
        for turn in range(turns)
        for part, dtypes in zip(whole, takers, strict=True)
    ]


def rows(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """The table: a row per family and dtype, and one for each dtype."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for name, dtype, what, value, _ in facts:
        for family in (FAMILY[Path(name).parent.name], "all"):
            values[family, dtype, what].append(value)
    return [
        {
            "family": family,
            "dtype": dtype,
            "cases": len(values[family, dtype, "cases"]),
            "calls refused": len(values[family, dtype, "refused"]),
            "failures": len(values[family, dtype, "failures"]),
            **quantiles("error / bound", values[family, dtype, "error / bound"], (1.0, 0.999, 0.99)),
            **quantiles("error / eager's", values[family, dtype, "error / eager's"], (0.5, 0.99, 1.0)),
        }
        for family in (*FAMILIES, "all")
        for dtype in DTYPE_NAMES
        if values[family, dtype, "cases"]
    ]


def quantiles(what: str, values: Sequence[float], parts: Sequence[float]) -> dict[str, float | None]:
    names = {0.5: "median", 1.0: "largest", 0.99: "99 %", 0.999: "99.9 %"}
    found = np.quantile(values, parts, method="higher").tolist() if values else [None] * len(parts)
    return {f"{what}: {names[part]}": each for part, each in zip(parts, found, strict=True)}


def sensitivity(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """Of each constant, how many cases that pass would fail with half of it."""
    dtypes = [dtype for dtype in DTYPE_NAMES if any(each.dtype == dtype for each in facts)]
    table = []
    for constant, value, _ in halves():
        lost = [each for each in facts if each.what == constant]
        counts = {dtype: sum(each.dtype == dtype for each in lost) for dtype in dtypes}
        names = {each.candidate for each in lost}
        families = ", ".join(sorted({FAMILY[Path(name).parent.name] for name in names}))
        table.append(
            {"constant": constant, "value": float(value), **counts, "candidates": len(names), "families": families}
        )
    return table


def markdown(table: Sequence[Mapping[str, Any]]) -> str:
    lines = [[*table[0]], ["-" if isinstance(each, str) else "-:" for each in table[0].values()]]
    lines += [[written(each) for each in row.values()] for row in table]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def written(value: float | str | None) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else value or "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=20000, help="per dtype, of all candidates (default: 20000)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--seed", type=lambda text: int(text, 16), help="hexadecimal (default: a fresh one)")
    parser.add_argument("--only", default="", metavar="PART", help="candidates with this in their task/name")
    parser.add_argument("--sensitivity", action="store_true", help="what half of each constant would cost")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables there too")
    given = parser.parse_args()
    threads = None if given.jobs == 1 else max(len(os.sched_getaffinity(0)) // given.jobs, 1)
    settings = Settings.read({"seed": given.seed, "threads": threads})
    whole = [Part(place, each, settings, given.sensitivity) for place, each in honest(given.only).items()]
    if not whole:
        parser.error(f"--only={given.only}: no candidate has this in its task/name")
    facts: list[Fact] = []
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        spread: Any = map if given.jobs == 1 else pool.map
        parts = shared(whole, list(spread(taken, whole)), given.cases)
        for number, found in enumerate(spread(measured, parts)):
            facts += found
            print(f"{number + 1}/{len(parts)} {parts[number].place.stem}", file=sys.stderr)
    report(facts, settings, given)
    sys.exit(any(each.what == "failures" for each in facts))


def report(facts: Sequence[Fact], settings: Settings, given: argparse.Namespace) -> None:
    """Where and when it was, the tables, the failures."""
    run = environment((), settings.seed, "cpu", None)
    run["command"] = shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])
    where = f"{run['cpu']['model']}, {run['cpu']['usable']} CPUs, torch {run['packages']['torch']}"
    table, constants = rows(facts), sensitivity(facts) if given.sensitivity else []
    failures = [each for each in facts if each.what == "failures"]
    print(f"{where}, {run['time'][:10]}, seed {run['seed']}, `{run['command']}`\n\n{markdown(table)}")
    if constants:
        print(f"\nCases that pass, and would fail with half of a constant:\n\n{markdown(constants)}")
    for each in failures:
        print(f"\n{each.candidate}: {each.text}")
    if given.json is not None:
        said = [f"{each.candidate}: {each.text}" for each in failures]
        document = {"run": run, "table": table, "sensitivity": constants, "failures": said}
        given.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
