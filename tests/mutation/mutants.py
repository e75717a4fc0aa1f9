"""What can be broken in a module: one small change each, in the body of a function.

Rule 1: a mutant is named by its function, its kind and its number within them, so that its name stays when other
functions change.
Rule 2: only what decides or does something is changed: no texts (nor `__repr__`), no log lines, no
annotations, no assertions.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv}
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNITS = {60, 1000, 1024, 1_000_000}  # forgotten rather than mistaken by one
LOGGERS = {"logger", "log"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = Callable[[], None]  # changes the tree in place


@dataclass(frozen=True)
class Mutant:
    """One change: which function it is in, where, and what it does."""

    function: str  # qualified within the module, as in `code.co_qualname`
    kind: str
    number: int  # among those of its kind in its function
    line: int
    what: str
    lines: range  # of its statement, without those of the statements in it; counted from the function's first

    @property
    def name(self) -> str:
        return f"{self.function}:{self.kind}:{self.number}"


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module."""
    return [mutant for mutant, _ in _changes(ast.parse(source))]


def mutated(source: str, wanted: Mutant) -> ast.Module:
    """The module's tree with one mutant applied."""
    tree = ast.parse(source)
    for mutant, change in _changes(tree):
        if mutant.name == wanted.name:
            change()
            return ast.fix_missing_locations(tree)
    raise LookupError(f"there is no mutant {wanted.name}")


def _changes(tree: ast.Module) -> Iterator[tuple[Mutant, Change]]:
    for qualified, function in functions(tree):
        numbers: Counter[str] = Counter()
        for statement, (kind, node, what, change) in _changes_in(function):
            numbers[kind] += 1
            yield Mutant(qualified, kind, numbers[kind], node.lineno, what, _lines(statement, function)), change


def _lines(statement: ast.stmt, function: Function) -> range:
    last = statement.end_lineno or statement.lineno
    inner = [child.lineno for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
    if inner and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        last = max(min(inner) - 1, statement.lineno)
    return range(statement.lineno - function.lineno, last - function.lineno + 1)


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The outermost functions, with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name not in ("__repr__", "__str__"):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")


_Found = tuple[str, ast.stmt | ast.expr, str, Change]


def _changes_in(function: Function) -> Iterator[tuple[ast.stmt, _Found]]:
    for statement in _statements(function.body):
        for found in _of_statement(statement):
            yield statement, found
        for expression in _expressions(statement):
            for found in _of_expression(expression):
                yield statement, found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, nested ones too, but for those that only say something."""
    for statement in body:
        if isinstance(statement, ast.Assert | ast.Raise) or _is_text(statement) or _is_logging(statement):
            if isinstance(statement, ast.Raise):
                yield statement
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)
        for case in getattr(statement, "cases", []):
            yield from _statements(case.body)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without those of the statements in it, of texts and of annotations."""
    if isinstance(statement, ast.Raise):
        return
    skipped = {
        id(part) for part in (getattr(statement, "annotation", None), getattr(statement, "returns", None)) if part
    }
    waiting: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr | ast.withitem | ast.arguments)
    ]
    while waiting:
        node = waiting.pop(0)
        if id(node) in skipped or isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.expr):
            yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr | ast.comprehension | ast.keyword | ast.arguments)
        ]


def _of_statement(statement: ast.stmt) -> Iterator[_Found]:
    match statement:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            text = ast.unparse(statement).splitlines()[0][:80]
            yield "left out", statement, f"without `{text}`", _left_out(statement)
        case ast.Break():
            yield "loop", statement, "break -> continue", _replaced(statement, ast.Continue())
        case ast.Continue():
            yield "loop", statement, "continue -> break", _replaced(statement, ast.Break())
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            negated = ast.UnaryOp(ast.Not(), test)
            yield "condition", statement, f"not ({ast.unparse(test)[:80]})", _set(statement, "test", negated)


def _of_expression(node: ast.expr) -> Iterator[_Found]:
    match node:
        case ast.Compare(ops=ops):
            for index, operator in enumerate(ops):
                other = COMPARISONS[type(operator)]
                what = f"`{ast.unparse(node)[:80]}` with {other.__name__} for {type(operator).__name__}"
                yield "compare", node, what, _set_item(ops, index, other())
        case ast.BoolOp(op=operator):
            swapped = ast.Or() if isinstance(operator, ast.And) else ast.And()
            what = f"`{ast.unparse(node)[:80]}` with {type(swapped).__name__}"
            yield "and-or", node, what, _set(node, "op", swapped)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", node, f"`{ast.unparse(node)[:80]}` without not", _replaced(node, operand)
        case ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text_like(node):
            exchanged = OPERATORS[type(operator)]()
            what = f"`{ast.unparse(node)[:80]}` with {type(exchanged).__name__}"
            yield "arithmetic", node, what, _set(node, "op", exchanged)
        case ast.Constant(value=bool(value)):
            yield "constant", node, f"{value} -> {not value}", _set(node, "value", not value)
        case ast.Constant(value=int(value)) if value in UNITS:
            yield "constant", node, f"{value} -> 1", _set(node, "value", 1)
        case ast.Constant(value=int(value)):
            yield "constant", node, f"{value} -> {value + 1}", _set(node, "value", value + 1)
        case ast.Call(func=ast.Name(id=name) as called) if name in SWAPPED_NAMES:
            yield "call", node, f"{name} -> {SWAPPED_NAMES[name]}", _set(called, "id", SWAPPED_NAMES[name])
        case ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            negated = ast.UnaryOp(ast.Not(), test)
            yield "condition", node, f"not ({ast.unparse(test)[:80]})", _set(node, "test", negated)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_text_like(node: ast.BinOp) -> bool:
    """Whether it joins texts or bytes, as far as can be seen."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _is_logging(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in LOGGERS
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name)))):
            return name.strip("_") in LOGGERS
    return False


def _set(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _set_item(items: list[ast.cmpop], index: int, value: ast.cmpop) -> Change:
    def change() -> None:
        items[index] = value

    return change


def _left_out(statement: ast.stmt) -> Change:
    """Never reached rather than gone: the function keeps its variables, and can be exchanged for it."""
    return _replaced(statement, ast.If(ast.Constant(False), [copy(statement)], []))


def _replaced(node: ast.AST, other: ast.AST) -> Change:
    """Make the node into the other one, where it stands."""

    def change() -> None:
        node.__class__ = other.__class__
        for field in ("value", "target", "op", "exc", "cause", "operand"):
            node.__dict__.pop(field, None)
        node.__dict__.update(ast.iter_fields(other))

    return change
