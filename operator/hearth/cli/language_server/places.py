"""Definition, references and rename of the parameters, conditions, values and resources of a template."""

from __future__ import annotations

from hearth.cli.language_server import template_names
from hearth.cli.language_server.template_names import (
    PARAMS,
    AnalyzedText,
    Span,
    Template,
    TemplateName,
    Unreadable,
    WrittenExpression,
)
from hearth.template.parser.template_parser import TemplateParser
from hearth.template.text import error_hints


class Refusal(Exception):
    """A rename that is not possible; the message says why."""


def find_name(analyzed: AnalyzedText, offset: int) -> tuple[Template, TemplateName, Span] | None:
    """Return the name at an offset that its template defines."""
    for template in reversed(analyzed.templates):
        found = template.find_at(offset)
        if found is not None and found[0] in template.keys:
            return template, *found
    return None


def find_definition(text: str, offset: int) -> Span | None:
    """Return the key that defines the name at an offset."""
    found = find_name(template_names.analyze(text), offset)
    return found[0].keys[found[1]][0] if found is not None else None


def find_references(text: str, offset: int) -> list[Span]:
    """Return all places of the name at an offset, its definition first. Expressions that cannot be parsed are left out."""
    found = find_name(template_names.analyze(text), offset)
    if found is None:
        return []
    template, name, _ = found
    uses = [span for expression in template.list_expressions() for span in find_readable(expression, name)]
    return [*template.find_plain_places(name), *uses]


def find_readable(expression: WrittenExpression, name: TemplateName) -> list[Span]:
    """Return the places where an expression reads a name; none if it cannot be parsed."""
    try:
        return expression.find_uses(name)
    except Unreadable:
        return []


def find_renameable(text: str, offset: int) -> Span | None:
    """Return the word at an offset that can be renamed."""
    found = find_name(template_names.analyze(text), offset)
    return found[2] if found is not None else None


def rename(text: str, offset: int, new_name: str) -> list[Span]:
    """Return the places to replace with a new name. Raises Refusal."""
    analyzed = template_names.analyze(text)
    if not analyzed.outline.is_whole:
        raise Refusal("the file is not valid YAML; fix it, then rename")
    found = find_name(analyzed, offset)
    if found is None:
        raise Refusal("there is no parameter, condition, value or resource here")
    template, name, _ = found
    check_name(template, name, new_name)
    spans = template.find_plain_places(name)
    for expression in template.list_expressions():
        spans += find_changed(expression, name, new_name)
    return spans


def check_name(template: Template, name: TemplateName, new_name: str) -> None:
    """Raise Refusal for a name that the template cannot have, in the words of lint."""
    word = "parameters" if name.category == PARAMS else name.category
    parser = TemplateParser("")
    parser.entries({word: {new_name: None}}, word, limit=1)
    if parser.mistakes:
        raise Refusal(f"{error_hints.quote(new_name)}: {parser.mistakes[0].message}")
    if TemplateName(category=name.category, text=new_name) in template.keys:
        raise Refusal(f"there is already {error_hints.quote(new_name)} in {word}; choose another name")


def find_changed(expression: WrittenExpression, name: TemplateName, new_name: str) -> list[Span]:
    """Return where a rename changes an expression. Raises Refusal if it would change its meaning, or cannot be parsed."""
    try:
        spans = expression.find_uses(name)
    except Unreadable as error:
        quoted = error_hints.quote_expression(expression.text)
        raise Refusal(f"{quoted} cannot be parsed: {error}; fix it, then rename") from error
    written = expression.text
    for span in reversed(spans):
        at = expression.offsets.index(span.start)
        written = written[:at] + new_name + written[at + len(name.text) :]
    changed = WrittenExpression(text=written, offsets=range(len(written) + 1), constants=expression.constants)
    renamed = TemplateName(category=name.category, text=new_name)
    try:
        is_same = len(changed.find_uses(renamed)) == len(spans)
    except Unreadable:
        is_same = False
    if not is_same:
        quoted = error_hints.quote_expression(expression.text)
        raise Refusal(f"{error_hints.quote(new_name)} already has a meaning in {quoted}; choose another name")
    return spans
