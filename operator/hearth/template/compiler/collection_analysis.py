"""Collections: a resource with `forEach` during the validation of its template, and its expansion to members.

The elements and keys depend on parameters alone, so that all members are known before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, value_class
from hearth.model.groups import members
from hearth.model.text import enumeration
from hearth.template.cel import type_checker
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.cel.type_checker import TypeScope
from hearth.template.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.template.compiler import template_conditions
from hearth.template.compiler.manifest_template import Constant
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.parser.template_parser import MEMBER_KEY, ResourceSource
from hearth.template.text import error_hints

ITEM, INDEX, KEY = "item", "index", MEMBER_KEY
MEMBER_NAMES = (ITEM, INDEX, KEY)
"""The names by which the expressions of a member read its element, position and key."""
SOURCE = AllowedNames(
    names=frozenset({"params", "conditions", "stack"}),
    rule="forEach can use only params, conditions and stack, because the members must be known before any apply",
)
KEY_RULE = "key can use only item, index, params, conditions and stack, because it names the member before any apply"
KEY_NAMES = frozenset({ITEM, INDEX, *SOURCE.names})
WHEN = AllowedNames(
    names=template_conditions.AUDIENCE.names,
    rule="when is decided for all members at once and can use only params and conditions; to leave out some, filter the "
    "list in forEach: params.zones.filter(each, each.enabled)",
)


@dataclass(slots=True, kw_only=True)
class AnalyzedCollection:
    """What a valid `forEach` states; an expression is None if it has mistakes."""

    source: ResourceSource
    for_each: ValidExpression | None = None
    key: ValidExpression | None = None
    item: str = ""
    """The type of the elements, as CEL writes it; "" is dynamic."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element of a collection."""

    key: str
    index: int
    item: Any = field(repr=False)

    @property
    def constants(self) -> Mapping[str, Any]:
        """Return the names that the member's expressions read."""
        return {ITEM: self.item, INDEX: self.index, KEY: self.key}


def examine(source: ResourceSource, examiner: ExpressionValidator) -> AnalyzedCollection:
    """Validate `forEach` and `key`."""
    path = f"{source.path}.forEach"
    found = AnalyzedCollection(source=source)
    text = template_conditions.read_test(source.for_each, examiner, path=path, example="params.zones")
    found.for_each = None if text is None else examiner.examine(text, path=path, audience=SOURCE)
    result = found.for_each.result if found.for_each is not None else "DYN"
    if not is_iterable(result):
        gives, quoted = type_checker.describe_result(result), error_hints.quote_expression(text or "")
        examiner.note(path, f"must give a list or a map, {quoted} gives {gives}; name a parameter that is one")
        found.for_each = None
    found.item = type_checker.find_element(result)
    if source.key is not None:
        found.key = examine_key(found, examiner, is_map=not type_checker.is_list(result))
    return found


def is_iterable(result: str) -> bool:
    """Return whether a value of that type may be a list or a map."""
    return result == "DYN" or type_checker.is_list(result) or type_checker.describe_result(result) == "a map"


def examine_key(found: AnalyzedCollection, examiner: ExpressionValidator, *, is_map: bool) -> ValidExpression | None:
    """Validate `key`, which must give text. is_map: whether the elements may have a key already."""
    path = f"{found.source.path}.key"
    text = template_conditions.read_test(found.source.key, examiner, path=path, example="item.name")
    if text is None:
        return None
    outer = examiner.scope
    examiner.scope = derive_scope(found, outer)
    allowed = AllowedNames(names=KEY_NAMES | ({KEY} if is_map else set()), rule=KEY_RULE)
    expression = examiner.examine(text, path=path, audience=allowed)
    examiner.scope = outer
    if expression is not None and expression.result not in ("STRING", "DYN"):
        gives = type_checker.describe_result(expression.result)
        quoted = error_hints.quote_expression(text)
        examiner.note(path, f"must give text, {quoted} gives {gives}; convert with string()")
        return None
    return expression


def derive_scope(found: AnalyzedCollection, outer: TypeScope) -> TypeScope:
    """Return the names that the expressions of a member know."""
    return outer.derive({ITEM: found.item, INDEX: "INT", KEY: "STRING"})


def expand(found: AnalyzedCollection, binder: PartialEvaluator) -> ChunkedWork[list[Element] | None]:
    """Return the elements in the order of the source, a map's in that of its keys; None in case of a mistake."""
    if found.for_each is None or (found.source.key is not None and found.key is None):
        return None
    if found.source.indices is not None:
        return [Element(key=str(index), index=index, item=index) for index in found.source.indices]
    path = f"{found.source.path}.forEach"
    value = read_plainly(found.for_each, binder.constants)
    if value is None:
        bound = binder.bind(found.for_each, path=path)
        if not isinstance(bound, Constant):
            return None
        value = bound.value
    yield
    items = list_items(value)
    if items is None:
        what = "something else" if binder.is_sensitive(found.for_each) else error_hints.describe(value)
        binder.note(path, f"must give a list or a map, gives {what}; correct the parameter")
    elif len(items) > limits.RESOURCES:
        most = f"a template may have at most {limits.RESOURCES} resources"
        binder.note(path, f"gives {len(items)} elements, but {most}; use several Stacks")
    elif not refuse_secret_keys(found, binder, is_map=isinstance(value, dict)):
        positions = binder.part.find_positions(found.for_each) if binder.part is not None else None
        return (yield from name_elements(found, items, binder, positions=positions))
    return None


def read_plainly(expression: ValidExpression, constants: Mapping[str, Any]) -> Any:
    """Return the value of an expression that is only a path; None for any other, or if nothing is there.

    Most are, and a long list is large for CEL.
    """
    reads = expression.parsed.reading.reads
    if len(reads) != 1 or str(reads[0]) != expression.parsed.text:
        return None
    value: Any = constants
    for step in (reads[0].root, *reads[0].steps):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


def refuse_secret_keys(found: AnalyzedCollection, binder: PartialEvaluator, *, is_map: bool) -> bool:
    """Record if the keys come from something sensitive; return whether they do."""
    if found.key is None:
        where, is_secret = "forEach", is_map and is_sensitive(found, binder)
    else:
        names = {ITEM, KEY} if is_sensitive(found, binder) else set()
        with binder.hide(names):
            where, is_secret = "key", binder.is_sensitive(found.key)
    if is_secret:
        reason = "they become names of objects, which are not secret"
        binder.note(
            f"{found.source.path}.{where}", f"takes keys from something sensitive, and {reason}; use other keys"
        )
    return is_secret


def is_sensitive(found: AnalyzedCollection, binder: PartialEvaluator) -> bool:
    """Return whether the elements are sensitive."""
    return found.for_each is not None and binder.is_sensitive(found.for_each)


def list_items(value: Any) -> list[tuple[str | None, Any]] | None:
    """Return the elements with their keys in a map; None if the value is neither list nor map."""
    match value:
        case list():
            return [(None, item) for item in value]
        case dict():
            return sorted(value.items())
    return None


def name_elements(
    found: AnalyzedCollection,
    items: list[tuple[str | None, Any]],
    binder: PartialEvaluator,
    *,
    positions: Sequence[int] | None = None,
) -> ChunkedWork[list[Element] | None]:
    """Give each element its key; None in case of a mistake. positions: of the elements, if they are not all."""
    elements: list[Element] = []
    taken: dict[str, int] = {}
    before = len(binder.mistakes)
    for number, (own, item) in enumerate(items):
        index = positions[number] if positions is not None else number
        if number % MARKS_IN_A_PIECE == 0:
            yield
        if len(binder.mistakes) - before >= limits.SHOWN_MEMBERS:
            break
        element = Element(key=str(index) if own is None else own, index=index, item=item)
        if (key := find_key(found, element, taken, binder)) is not None:
            taken[key] = index
            elements.append(Element(key=key, index=index, item=item))
    return None if len(elements) < len(items) else elements


def find_key(
    found: AnalyzedCollection, element: Element, taken: Mapping[str, int], binder: PartialEvaluator
) -> str | None:
    """Find the key of an element; None in case of a mistake. taken: the keys of other elements with their positions."""
    key: Any = element.key
    path = f"{found.source.path}.forEach"
    if found.key is not None:
        path = f"{found.source.path}.key"
        with binder.for_member(element.constants, name=f"element {element.index}"):
            bound = binder.bind(found.key, path=path)
        if not isinstance(bound, Constant):
            return None
        key = bound.value
    what = f"element {element.index} gives {error_hints.describe(key)}"
    if not isinstance(key, str) or not members.KEY.fullmatch(key):
        rule = f"at most {members.KEY_LENGTH} lower-case letters, digits and dashes, and no dash at an end"
        binder.note(path, f"{what}, but a key has {rule}; use another key")
    elif key in taken:
        binder.note(path, f"{what}, as element {taken[key]} does, but keys must be unique; use another key")
    else:
        return key
    return None


def describe_keys(elements: Iterable[Element]) -> str:
    """Return the first keys for a message."""
    keys = [each.key for each in elements]
    return enumeration.enumerate_names(keys) if keys else "none"
