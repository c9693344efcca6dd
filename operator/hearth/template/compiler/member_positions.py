"""Reports references to members of a collection at positions that do not exist.

A position is checked if it is a number, or follows from parameters and the numbers of members. Other positions fail
when they are evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.template.blueprint import Known
from hearth.template.cel import cel_environment, expressions
from hearth.template.cel.expression_validator import ValidExpression
from hearth.template.cel.expressions import Parsed
from hearth.template.compiler.collection_analysis import MEMBER_NAMES, Element
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.compiler.resource_analysis import AnalyzedDocument, AnalyzedOutput, AnalyzedResource
from hearth.template.text import error_hints

GUARDS = ("?", "&&", "||")
"""Operators that make a part of an expression optional."""
TEXTS = re.compile(
    r"""(?s)'{3}.*?'{3}|"{3}.*?"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|//[^\n]*""",
)
"""Texts and comments of an expression, where brackets mean nothing."""
STEP = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\[")
"""The beginning of a step into something by its position."""


def refuse_in_resource(
    analyzed: AnalyzedResource, sizes: Mapping[str, int], evaluator: PartialEvaluator
) -> ChunkedWork[None]:
    """Record the positions in one resource that do not exist. sizes: the numbers of members of all collections."""
    others = {name: size for name, size in sizes.items() if size and name != analyzed.source.name}
    if not others:
        return
    found = [*find_parts(analyzed), *analyzed.ready_when, *analyzed.failed_when]
    yield from refuse(found, others, evaluator, elements=analyzed.elements or ())


def refuse_in_output(
    output: AnalyzedOutput, sizes: Mapping[str, int], evaluator: PartialEvaluator
) -> ChunkedWork[None]:
    """Record the positions in the value of an output that do not exist."""
    present = {name: size for name, size in sizes.items() if size}
    if present:
        yield from refuse(find_parts(output), present, evaluator)


def find_parts(document: AnalyzedDocument) -> Iterator[tuple[ValidExpression, str]]:
    """Yield the expressions of a document with their paths."""
    return ((piece, mark.path) for mark in document.parsed.strings for piece in document.find_within(mark))


def refuse(
    parts: Iterable[tuple[ValidExpression, str]],
    sizes: Mapping[str, int],
    evaluator: PartialEvaluator,
    *,
    elements: Sequence[Element] = (),
) -> ChunkedWork[None]:
    """Record the positions that do not exist, unless a condition guards them. elements: of the collection around them."""
    for number, (expression, path) in enumerate(parts, start=1):
        if number % MARKS_IN_A_PIECE == 0:
            yield
        parsed = expression.parsed
        if sizes.keys().isdisjoint(parsed.roots) or any(word in parsed.text for word in GUARDS):
            continue
        for read in parsed.reads.reads:
            at = read.steps[0] if read.root in sizes and read.steps else None
            if isinstance(at, int) and not 0 <= at < sizes[read.root]:
                note(f"{read.root}[{at}]", sizes[read.root], path, evaluator)
        for name, text in find_computed(parsed, sizes):
            at = yield from find_beyond(text, name, sizes, evaluator, elements)
            if at is not None:
                shown = "" if evaluator.is_sensitive(expression) else f", position {at}"
                note(f"{name}[{text}]", sizes[name], path, evaluator, shown=shown)


def note(what: str, size: int, path: str, evaluator: PartialEvaluator, *, shown: str = "") -> None:
    """Record a position that does not exist. shown: the position that an expression gives."""
    there = f"'{what.partition('[')[0]}' has {size} members, at the positions 0 to {size - 1}"
    evaluator.note(
        path,
        f"there is no '{error_hints.shorten(what)}'{shown}: {there}; use one of them, or a condition on size()",
    )


def find_computed(parsed: Parsed, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield each collection with the expression of a position in it."""
    if not parsed.reads.is_dynamic:
        return
    masked = TEXTS.sub(lambda found: "_" * len(found[0]), parsed.text)
    for step in STEP.finditer(masked):
        if step[1] in sizes and (end := find_end(masked, step.end())) is not None:
            text = parsed.text[step.end() : end].strip()
            if not text.lstrip("-").isdigit():
                yield step[1], text


def find_end(masked: str, start: int) -> int | None:
    """Return where the bracket ends that was opened before `start`."""
    depth = 1
    for at in range(start, len(masked)):
        depth += (masked[at] == "[") - (masked[at] == "]")
        if depth == 0:
            return at
    return None


def find_beyond(
    text: str, name: str, sizes: Mapping[str, int], evaluator: PartialEvaluator, elements: Sequence[Element]
) -> ChunkedWork[int | None]:
    """Return a position that the expression gives and the collection does not have, or None if all are there or unknown."""
    for other, size in sizes.items():
        if other in text:
            text = re.sub(rf"\bsize\(\s*{other}\s*\)|(?<![\w.]){other}\.size\(\)", str(size), text)
    try:
        parsed = expressions.parse(text)
    except cel_environment.CelCompileError:
        return None
    if not evaluator.constants.keys() >= set(parsed.roots) - set(MEMBER_NAMES if elements else ()):
        return None
    is_own = any(each in MEMBER_NAMES for each in parsed.roots)
    for number, each in enumerate(elements if is_own else elements[:1] or (None,), start=1):
        at = evaluate(parsed, {**evaluator.constants, **(each.constants if each is not None else {})})
        if at is not None and not 0 <= at < sizes[name]:
            return at
        if number % MARKS_IN_A_PIECE == 0:
            yield
    return None


def evaluate(parsed: Parsed, constants: Mapping[str, object]) -> int | None:
    """Return the number that an expression on known values gives, or None if it gives none, or takes long."""
    outcome = expressions.bind(parsed, path="", constants=constants, needs_bound=True).evaluate({})
    is_number = isinstance(outcome, Known) and isinstance(outcome.value, int) and not isinstance(outcome.value, bool)
    return outcome.value if is_number and isinstance(outcome, Known) else None
