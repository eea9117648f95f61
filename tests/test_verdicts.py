"""Honest candidates pass; bugs, cheats and wrong gradients get the verdict that their first line says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_kbench import Grader, Settings, Task
from pytest_kbench.build.program import needs_cuda
from pytest_kbench.candidate import Candidate, find
from pytest_kbench.case import NamedCase
from pytest_kbench.checks import determinism, fuzz, grad
from pytest_kbench.formats.native import load
from pytest_kbench.oracle.coverage import derive, elements, fixed_cases, gradients, sequences
from pytest_kbench.record import GRADIENTS, Reason, Verdict

HERE = Path(__file__).parent
TASKS = (HERE.parent / "tasks", HERE / "tasks")
SEEDS = 10
EXAMPLES = 2000  # of a search that is to find something; two hundred do for most
SAMPLED = 8  # one of so many cases
SMALL, LARGE = 1 << 16, 1 << 22  # elements of a call's arguments: where cases are many, and where they are few


def candidates(folder: Path) -> list[Candidate]:
    """The files and folders below `<folder>/<task>/` that a CPU can run; one that is no candidate is an error."""
    found = [each for task in sorted(folder.iterdir()) if task.name[0] not in "_." for each in find(task)]
    assert found, f"{folder} has no candidates"
    broken = [each for each in found if not isinstance(each, Candidate)]
    assert not broken, broken
    return [each for each in found if isinstance(each, Candidate) and not needs_cuda(each)]


HONEST = candidates(HERE / "honest")
SHIPPED = candidates(HERE.parent / "candidates")
BUGS = candidates(HERE / "bugs")
CHEATS = candidates(HERE / "cheats")
WRONG_GRADIENTS = candidates(HERE / "gradients")


def named(candidate: Candidate) -> str:
    return f"{candidate.path.parent.name}/{candidate.name}"


def task_of(candidate: Candidate) -> Path:
    """The file of a task that comes with the project, or of one that only tests declare."""
    places = [folder / f"{candidate.path.parent.name}.py" for folder in TASKS]
    return next(place for place in places if place.is_file())


def expected(candidate: Candidate, of: str = "verdict") -> list[str]:
    """The reasons that the first line allows; none if it says nothing."""
    source = candidate.path / "__init__.py" if candidate.path.is_dir() else candidate.path
    first = source.read_text().partition("\n")[0]
    found = re.fullmatch(rf"(?:#|//) {of}: ([a-z_|]+)", first)
    return found[1].split("|") if found else []


# Honest forwards whose gradients are not always right: zero times infinity in a branch that is not taken or behind a
# maximum of nothing, exp(scores - their logsumexp) where these are in the millions, a fast path without a graph, memory
# that every call uses again, thousands of equal terms in one accumulator, what underflows on the way back.
FORWARDS_ALONE = [each for each in HONEST if expected(each, "gradients")]
# These compile for every shape and its backward, import much at their first call, or go through their loops in Python.
LENGTHY = (
    *("softmax/compiled.py", "relu/custom_operator.py", "softmax/gradient_of_operator.py"),
    *("unet_linear/chunks_recomputed.py", "mnist_conv_relu_pool/term_by_term.py"),
)


def graded(candidates: Iterable[Candidate]) -> list[pytest.ParameterSet]:
    """Parameters of a test; those that take minutes are slow."""
    return [
        pytest.param(each, id=named(each), marks=[pytest.mark.slow] if named(each) in LENGTHY else [])
        for each in sorted(candidates, key=task_of)
    ]


DIFFERENTIATED = graded(
    each for each in (*HONEST, *SHIPPED) if load(task_of(each))[0].grad and each not in FORWARDS_ALONE
)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    # One seed, so that a change is not stopped by what it did not touch: benchmarks/calibrate.py takes fresh ones.
    with Grader(Settings(seed=0, timeout=20.0, max_failures=1, memory=8 << 30)) as grader:
        yield grader


def sampled(task: Task, seed: int, most: int) -> list[NamedCase]:
    """One seed of each combination in shapes of at most so many elements, and every sequence of calls."""
    shapes = [tuple(dims.items()) for name, dims in task.shapes.items() if elements(task, name) <= most]
    fixed = [each for each in fixed_cases(task, "cpu", seed) if each.id.endswith(":s0")]
    return [*(each for each in fixed if each.case.calls[0].dims in shapes), *sequences(task, "cpu", seed)]


@pytest.mark.slow  # `pytest tasks/ --kbench` says the same
@pytest.mark.parametrize("candidate", SHIPPED, ids=named)
def test_a_shipped_candidate_passes(grader: Grader, candidate: Candidate) -> None:
    checks = ("build", "correct", "contract", "determinism", "fuzz")  # gradients: below
    verdict = grader.grade(task_of(candidate), candidate, checks=checks)
    assert verdict.outcome == "passed", verdict.message


@pytest.mark.parametrize("candidate", graded(HONEST))
def test_an_honest_candidate_passes(grader: Grader, candidate: Candidate) -> None:
    task, _ = load(task_of(candidate))
    cases = sampled(task, grader.settings.seed, LARGE)
    verdict = grader.grade(task, candidate, checks=["contract"], cases=cases)
    assert verdict.outcome == "passed", verdict.message
    repeated = determinism.cases(task, grader.settings)
    if candidate in FORWARDS_ALONE:
        repeated = tuple(each for each in repeated if not each.case.calls[0].grad)
    verdict = grader.grade(task, candidate, checks=["determinism"], cases=repeated)
    assert verdict.outcome == "passed", verdict.message


@pytest.mark.parametrize("candidate", sorted([*BUGS, *CHEATS], key=task_of), ids=named)
def test_a_wrong_candidate_gets_its_verdict(grader: Grader, candidate: Candidate) -> None:
    reasons = expected(candidate)
    # Who hangs must hang for as long as that is allowed: not long, here.
    settings = replace(grader.settings, timeout=1.0) if reasons == ["timeout"] else grader.settings
    if candidate in BUGS:
        settings = replace(settings, seed=1, examples=EXAMPLES)  # a rare one is found by this seed
    checks = ("build", "correct", "contract", *(["fuzz"] if candidate in BUGS else []))
    verdict = grader.grade(task_of(candidate), candidate, checks=checks, settings=settings)
    assert verdict.outcome == "failed", "it passed"
    assert verdict.reason in (*reasons, *(["precision"] if "wrong" in reasons else [])), verdict.message


@pytest.mark.parametrize("candidate", sorted(WRONG_GRADIENTS, key=task_of), ids=named)
def test_a_wrong_gradient_gets_its_verdict(
    grader: Grader, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 0.0)  # most are found by fixed cases, a few by the search
    settings = replace(grader.settings, seed=1, examples=EXAMPLES)
    verdict = grader.grade(task_of(candidate), candidate, checks=["grad"], settings=settings)
    assert verdict.outcome == "failed", "it passed"
    assert verdict.reason in expected(candidate), verdict.message


def differentiable(verdict: Verdict) -> bool:
    """Whether all gradients are right, or there are none at all, which is said."""
    alone = verdict.reason is Reason.UNSUPPORTED and verdict.records[-1].facts.get("refuses") == GRADIENTS
    return verdict.outcome == "passed" or (verdict.outcome == "skipped" and alone)


@pytest.mark.parametrize("candidate", DIFFERENTIATED)
def test_gradients_of_an_honest_candidate_pass(grader: Grader, candidate: Candidate) -> None:
    task, _ = load(task_of(candidate))
    small = [tuple(dims.items()) for name, dims in task.shapes.items() if elements(task, name) <= SMALL]
    fixed = [each for each in gradients(task, "cpu", grader.settings.seed) if each.case.calls[0].dims in small]
    verdict = grader.grade(task, candidate, checks=["grad"], cases=fixed[::SAMPLED])
    assert differentiable(verdict), verdict.message


# Searches rejected these once, with bounds that were too narrow for formulas of many operators under autograd.
REJECTED_ONCE = [
    ("softmax/two_levels.py", "dims(rows=1,columns=1025) dtype(float32) values(x=subnormal,cotangent=levels)"),
    ("softmax/two_levels.py", "dims(rows=12,columns=12) dtype(bfloat16) values(x=wide)"),
    ("softmax/kahan.py", "dims(rows=1,columns=3060) dtype(float32) values(x=subnormal,cotangent=levels)"),
    ("softmax/online.py", "dims(rows=1,columns=1031) dtype(float32) values(x=scaled,cotangent=shifted)"),
    ("softmax/pairwise.py", "dims(rows=2,columns=4096) dtype(float32) values(x=scaled,cotangent=levels)"),
    ("softmax/blocked_sums.py", "dims(rows=2,columns=1528) dtype(float32) values(x=scaled,cotangent=shifted)"),
    ("softmax/reversed_sum.py", "dims(rows=1,columns=2049) dtype(float32) values(x=subnormal,cotangent=binary)"),
    ("log_softmax/composed.py", "dims(rows=2,columns=2055) dtype(float32) layout(cotangent=summed) values(x=tiny)"),
    (
        "llama_rmsnorm/hf_llama.py",
        "dims(tokens=15,hidden=10) dtype(float16) state(spread) scalars(eps=1e-06)"
        " layout(weight=offset,cotangent=expanded) values(x=subnormal,cotangent=tiny)",
    ),
    (
        "mnist_linear/product_then_bias.py",
        "dims(batch=8,features=48,classes=43) dtype(bfloat16) state(xavier)"
        " layout(x=expanded,weight=expanded,bias=expanded) values(x=zeros)",
    ),
    (
        "llama_rmsnorm/hf_llama.py",
        "dims(tokens=8193,hidden=4) dtype(float16) state(trained) scalars(eps=1e-06)"
        " values(x=subnormal,cotangent=subnormal)",
    ),
    (
        "attention/gradients_recomputed.py",
        "dims(b=1,kv=1,group=2,sq=13,d=64,sk=10) dtype(float32) values(q=wide,v=shifted,mask=causal)",
    ),
    (
        "attention/gradients_recomputed.py",
        "dims(b=1,kv=1,group=2,sq=12,d=24,sk=1) dtype(float32) values(k=wide,mask=causal)",
    ),
    (
        "attention/gradients_recomputed.py",
        "dims(b=2,kv=1,group=2,sq=16,d=33,sk=16) dtype(float16)"
        " values(q=shifted,k=shifted,v=shifted,mask=causal) backward(nested)",
    ),
    # With AMX torch's own products of bfloat16 read what lies beside a row, and memory that they never wrote.
    (
        "mnist_linear/gradients_where_needed.py",
        "dims(batch=64,features=5,classes=98) dtype(bfloat16) state(spread) layout(x=sliced)",
    ),
    (
        "mnist_conv_relu_pool/bias_after_the_product.py",
        "dims(n=1,cin=23,cout=7,h=6,w=521,k=5) dtype(bfloat16) state(kaiming) layout(cotangent=transposed)"
        " values(x=sorted,cotangent=sorted)",
    ),
]


@pytest.mark.parametrize(("name", "text"), REJECTED_ONCE)
def test_gradients_that_were_rejected_once_pass_whatever_the_seed(grader: Grader, name: str, text: str) -> None:
    candidate = next(each for each in HONEST if named(each) == name)
    leaves = ",".join(load(task_of(candidate))[0].grad)
    drawn = (derive(grader.settings.seed, text, index) for index in range(SEEDS))
    cases = [f"{text} grad({leaves}) seed({seed:x})" for seed in drawn]
    verdict = grader.grade(task_of(candidate), candidate, checks=["grad"], cases=cases)
    assert verdict.outcome == "passed", verdict.message


def test_a_sum_of_equal_numbers_may_round_the_same_way_each_time(grader: Grader) -> None:
    text = (
        "dims(batch=3,channels=39,height=53,width=8) dtype(float32) state(trained) scalars(eps=1e-05)"
        " layout(x=sliced) values(x=constant)"
    )
    candidate = next(each for each in SHIPPED if named(each) == "layernorm/eager.py")
    cases = [f"{text} seed({derive(grader.settings.seed, text, index):x})" for index in range(SEEDS)]
    verdict = grader.grade(task_of(candidate), candidate, checks=["fuzz"], cases=[*cases, f"{text} seed(134e0)"])
    assert verdict.outcome == "passed", verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("candidate", FORWARDS_ALONE, ids=named)
def test_gradients_of_an_honest_forward_may_be_wrong(grader: Grader, candidate: Candidate) -> None:
    verdict = grader.grade(task_of(candidate), candidate, checks=["grad"], settings=replace(grader.settings, seed=1))
    assert (verdict.reason or verdict.outcome) in expected(candidate, "gradients"), verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("candidate", sorted(WRONG_GRADIENTS, key=task_of), ids=named)
def test_a_search_alone_finds_a_wrong_gradient(
    grader: Grader, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 0.0)
    settings = replace(grader.settings, seed=1, examples=EXAMPLES)
    verdict = grader.grade(task_of(candidate), candidate, checks=["grad"], cases=[grad.SEARCH], settings=settings)
    assert verdict.outcome == "failed", "nothing was found"


@pytest.mark.slow
@pytest.mark.parametrize("candidate", DIFFERENTIATED)
def test_gradients_of_an_honest_candidate_survive_a_search(grader: Grader, candidate: Candidate) -> None:
    settings = replace(grader.settings, seed=1, examples=60)
    verdict = grader.grade(task_of(candidate), candidate, checks=["grad"], settings=settings)
    assert differentiable(verdict), verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("candidate", sorted(BUGS, key=task_of), ids=named)
def test_fuzzing_a_plain_declaration_finds_a_bug(
    grader: Grader, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 0.0)
    settings = replace(grader.settings, seed=1, examples=EXAMPLES, timeout=3.0)
    verdict = grader.grade(task_of(candidate), candidate, checks=["fuzz"], settings=settings)
    assert verdict.outcome == "failed", "nothing was found"


@pytest.mark.slow
@pytest.mark.parametrize("candidate", sorted([*HONEST, *SHIPPED], key=task_of), ids=named)
def test_an_honest_candidate_survives_fuzzing(grader: Grader, candidate: Candidate) -> None:
    settings = replace(grader.settings, seed=1, examples=100)
    verdict = grader.grade(task_of(candidate), candidate, checks=["fuzz"], settings=settings)
    assert verdict.outcome == "passed", verdict.message


# All candidates of a task meet the same calls one after another: the truth about these is found once.
UNDER_SEEDS = [
    pytest.param(candidate, index, id=f"{named(candidate)}-{index}")
    for task in sorted({task_of(candidate) for candidate in HONEST})
    for index in range(SEEDS)
    for candidate in HONEST
    if task_of(candidate) == task
]


@pytest.mark.slow
@pytest.mark.parametrize(("candidate", "index"), UNDER_SEEDS)
def test_an_honest_candidate_passes_under_many_seeds(grader: Grader, candidate: Candidate, index: int) -> None:
    seed = derive(grader.settings.seed, index)
    task, _ = load(task_of(candidate))
    verdict = grader.grade(task, candidate, checks=["contract"], cases=sampled(task, seed, SMALL))
    assert verdict.outcome == "passed", f"{verdict.message}\nin the run --kbench-seed={seed:x}"
