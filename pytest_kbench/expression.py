"""Arithmetic over dimensions, as text: `"kv*group"`, `"hw - k + 1 >= 2"`, so that a task prints, hashes and travels.

A deliberately small part of Python: integers, dimension names, `+ - * // %`, comparisons, `and or not`, `min`, `max`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: Mapping[str, Callable[..., int]] = {"min": min, "max": max}


class ExpressionError(ValueError):
    """The text is not an expression over dimensions, or cannot be evaluated; the message says why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; equal, hashed and printed by its text."""

    text: str

    def __post_init__(self) -> None:
        for node in ast.walk(self._tree()):
            _check(node, self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions it mentions, each once, in order of appearance."""
        return _names(self.text)

    def __call__(self, dims: Mapping[str, int]) -> int:
        """The value for these dimensions: an integer (truth values are 0 and 1)."""
        try:
            return int(_evaluate(self._tree().body, dims))
        except KeyError as error:
            raise ExpressionError(f"{self.text!r} needs the dimension {error.args[0]!r}") from None
        except ZeroDivisionError:
            raise ExpressionError(f"{self.text!r} divides by zero for {dict(dims)}") from None

    def _tree(self) -> ast.Expression:
        return _parse(self.text)


@cache
def shape(text: str) -> tuple[Expression, ...]:
    """Read a shape, one expression per dimension, separated by spaces: `"b kv*group sq d"`. `""` is a 0-D tensor."""
    return tuple(Expression(part) for part in text.split())


@cache
def _parse(text: str) -> ast.Expression:
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{text!r} is not an expression over dimensions") from None


@cache
def _names(text: str) -> tuple[str, ...]:
    found = (node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name) and node.id not in _CALLS)
    return tuple(dict.fromkeys(found))


def _check(node: ast.AST, text: str) -> None:
    match node:
        case ast.Constant(value=int()) | ast.Name() | ast.Expression() | ast.expr_context() | ast.boolop():
            return
        case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.Not()) | ast.BoolOp() | ast.Compare() | ast.unaryop():
            return
        case ast.operator() if type(node) in _BINARY:
            return
        case ast.cmpop() if type(node) in _COMPARE:
            return
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _CALLS:
            return
    raise ExpressionError(f"{text!r} uses {type(node).__name__}, which is no arithmetic over dimensions")


def _evaluate(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return dims[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, dims), _evaluate(right, dims))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, dims)
        case ast.UnaryOp(operand=operand):
            return not _evaluate(operand, dims)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_evaluate(value, dims) for value in values)
        case ast.BoolOp(values=values):
            return any(_evaluate(value, dims) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [_evaluate(side, dims) for side in (left, *comparators)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _CALLS[name](*(_evaluate(arg, dims) for arg in args))
    raise AssertionError(f"checked at construction: {ast.dump(node)}")
