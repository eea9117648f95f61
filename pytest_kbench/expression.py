"""Arithmetic over dimensions, as text: `"kv*group"`, `"hw - k + 1 >= 2"`, so that a task prints, hashes and travels.

A deliberately small part of Python: integers, dimension names, `+ - * // %`, comparisons, `and or not`, `min`, `max`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_FUNCTIONS: dict[str, Any] = {"__builtins__": {}, "min": min, "max": max}


class ExpressionError(ValueError):
    """The text is not an expression over dimensions, or cannot be evaluated; the message says why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; equal, hashed and printed by its text."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions it mentions, each once, in order of appearance."""
        return _names(self.text)

    def __call__(self, dims: Mapping[str, int]) -> int:
        """The value for these dimensions: an integer (truth values are 0 and 1)."""
        try:
            return int(eval(_compiled(self.text), _FUNCTIONS, dims))
        except NameError as error:
            raise ExpressionError(f"{self.text!r} needs the dimension {error.name!r}") from None
        except ZeroDivisionError:
            raise ExpressionError(f"{self.text!r} divides by zero for {dict(dims)}") from None


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
def _compiled(text: str) -> CodeType:
    """Checked first: what is evaluated has only the few nodes that are allowed."""
    tree = _parse(text)
    for node in ast.walk(tree):
        _check(node, text)
    return compile(tree, "<expression>", "eval")


@cache
def _names(text: str) -> tuple[str, ...]:
    found = (node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS)
    return tuple(dict.fromkeys(found))


def _check(node: ast.AST, text: str) -> None:
    match node:
        case ast.Constant(value=int()) | ast.Name() | ast.Expression() | ast.expr_context() | ast.boolop():
            return
        case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.Not()) | ast.BoolOp() | ast.Compare() | ast.unaryop():
            return
        case ast.operator() | ast.cmpop() if isinstance(node, _OPERATORS):
            return
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            return
    raise ExpressionError(f"{text!r} uses {type(node).__name__}, which is no arithmetic over dimensions")
