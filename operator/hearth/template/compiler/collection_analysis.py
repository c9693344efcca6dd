"""Validates a collection (a resource with `forEach`) and expands it to members.

Elements and keys depend only on parameters and external objects, so all members are known during the compilation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, members, names, object_fields, value_class
from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.text import enumeration
from hearth.template.cel import type_checker
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.cel.type_checker import TypeScope
from hearth.template.compiler import template_conditions
from hearth.template.compiler.manifest_template import Constant
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.parser.template_parser import MEMBER_KEY, ResourceSource
from hearth.template.text import error_hints

DEFAULT_REMOVED = "50%"
"""Share of members that may disappear without a user's edit, for lists that other clients maintain."""
NO_KEY = re.compile(r"[^a-z0-9-]+")
ITEM, INDEX, KEY = "item", "index", MEMBER_KEY
MEMBER_NAMES = (ITEM, INDEX, KEY)
"""Names that expressions of a member use for its element, position and key."""
SOURCE = AllowedNames(
    names=frozenset({"stack"}),
    rule="forEach can use only params, conditions, values and stack, and what externalRef reads, because the members must "
    "be known before any apply",
)
KEY_RULE = (
    "key can use only item, index, params, conditions, values and stack, because it names the member before any apply"
)
KEY_NAMES = frozenset({ITEM, INDEX, *SOURCE.names})
WHEN = AllowedNames(
    names=template_conditions.ALLOWED.names,
    rule="when is decided for all members at once and can use only params, conditions and values; to leave out some, "
    "filter the list in forEach: params.zones.filter(each, each.enabled)",
)


@dataclass(slots=True, kw_only=True)
class AnalyzedCollection:
    """A valid `forEach`; an expression is None if it has errors."""

    source: ResourceSource
    for_each: ValidExpression | None = None
    key: ValidExpression | None = None
    item: str = ""
    """The type of the elements, as CEL writes it; "" is dynamic."""
    is_of_objects: bool = False
    """Whether the elements may be external objects, whose names are their keys."""
    has_unique_names: bool = True
    """Whether all of these objects are in one namespace, so that their names are unique."""


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


def examine(source: ResourceSource, validator: ExpressionValidator) -> AnalyzedCollection:
    """Validate `forEach` and `key`."""
    path = f"{source.path}.forEach"
    found = AnalyzedCollection(source=source)
    text = template_conditions.read_test(source.for_each, validator, path=path, example="params.zones")
    allowed = AllowedNames(names={*SOURCE.names, *validator.externals}, rule=SOURCE.rule)
    found.for_each = None if text is None else validator.examine(text, path=path, allowed=allowed)
    result = found.for_each.result if found.for_each is not None else "DYN"
    gives = type_checker.describe_result(result)
    if result != "DYN" and not type_checker.is_list(result) and gives != "a map":
        quoted = error_hints.quote_expression(text or "")
        validator.note(path, f"must give a list or a map, {quoted} gives {gives}; name a parameter that is one")
        found.for_each = None
    found.item = type_checker.find_element(result)
    roots = found.for_each.parsed.roots if found.for_each is not None else ()
    read = [each for each in roots if each in validator.externals]
    found.is_of_objects = bool(read) and (
        found.item in ("", "DYN") or found.item in map(validator.scope.objects.get, read)
    )
    found.has_unique_names = not any(validator.externals[each] for each in read)
    if source.key is not None:
        found.key = examine_key(found, validator, is_map=not type_checker.is_list(result))
    return found


def examine_key(
    collection: AnalyzedCollection, validator: ExpressionValidator, *, is_map: bool
) -> ValidExpression | None:
    """Validate `key`, which must give text. is_map: whether the elements may have a key already."""
    path = f"{collection.source.path}.key"
    text = template_conditions.read_test(collection.source.key, validator, path=path, example="item.name")
    if text is None:
        return None
    outer = validator.scope
    validator.scope = derive_scope(collection, outer)
    allowed = AllowedNames(names=KEY_NAMES | ({KEY} if is_map else set()), rule=KEY_RULE)
    expression = validator.examine(text, path=path, allowed=allowed)
    validator.scope = outer
    if expression is not None and expression.result not in ("STRING", "DYN"):
        gives = type_checker.describe_result(expression.result)
        quoted = error_hints.quote_expression(text)
        validator.note(path, f"must give text, {quoted} gives {gives}; convert with string()")
        return None
    return expression


def derive_scope(collection: AnalyzedCollection, outer: TypeScope) -> TypeScope:
    """Return the names that the expressions of a member know."""
    return outer.derive({ITEM: collection.item, INDEX: "INT", KEY: "STRING"})


def expand(collection: AnalyzedCollection, evaluator: PartialEvaluator) -> ChunkedWork[list[Element] | None]:
    """Return the elements in the order of the source, for a map in key order; None after an error."""
    if collection.for_each is None or (collection.source.key is not None and collection.key is None):
        return None
    if collection.source.indices is not None:
        return [Element(key=str(index), index=index, item=index) for index in collection.source.indices]
    path = f"{collection.source.path}.forEach"
    read = frozenset(evaluator.externals).intersection(collection.for_each.parsed.roots)
    if unknown := read - evaluator.read.keys():
        evaluator.unresolved[collection.source.name] = unknown
        return None
    most = collection.source.max_removed
    if most is not None or read:
        evaluator.max_removed[collection.source.name] = most if most is not None else DEFAULT_REMOVED
    with evaluator.for_reading(read):
        value = read_plainly(collection.for_each, evaluator.constants)
        if value is None:
            bound = evaluator.bind(collection.for_each, path=path)
            if not isinstance(bound, Constant):
                return None
            value = bound.value
    yield
    items = list_items(value)
    if items is None:
        what = "something else" if evaluator.is_sensitive(collection.for_each) else error_hints.describe(value)
        evaluator.note(path, f"must give a list or a map, gives {what}; correct the parameter")
    elif len(items) > limits.RESOURCES:
        most = f"a template may have at most {limits.RESOURCES} resources"
        evaluator.note(path, f"gives {len(items)} elements, but {most}; use several Stacks")
    elif not refuse_secret_keys(collection, evaluator, is_map=isinstance(value, dict)):
        return (yield from name_elements(collection, items, evaluator))
    return None


def read_plainly(expression: ValidExpression, constants: Mapping[str, Any]) -> Any:
    """Return the value of an expression that is only a path; None for any other, or if there is no value.

    Most expressions are paths, and CEL would need much time and memory for a long list.
    """
    reads = expression.parsed.reads.reads
    if len(reads) != 1 or str(reads[0]) != expression.parsed.text:
        return None
    value: Any = constants
    for step in (reads[0].root, *reads[0].steps):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


def refuse_secret_keys(collection: AnalyzedCollection, evaluator: PartialEvaluator, *, is_map: bool) -> bool:
    """Record an error if the keys come from a sensitive value; return whether they do."""
    if collection.key is None:
        where, is_secret = "forEach", is_map and is_sensitive(collection, evaluator)
    else:
        hidden = {ITEM, KEY} if is_sensitive(collection, evaluator) else set()
        with evaluator.hide(hidden):
            where, is_secret = "key", evaluator.is_sensitive(collection.key)
    if is_secret:
        reason = "they become names of objects, which are not secret"
        evaluator.note(
            f"{collection.source.path}.{where}", f"takes keys from a sensitive value, and {reason}; use other keys"
        )
    return is_secret


def is_sensitive(collection: AnalyzedCollection, evaluator: PartialEvaluator) -> bool:
    """Return whether the elements are sensitive."""
    return collection.for_each is not None and evaluator.is_sensitive(collection.for_each)


def make_key(item: Any, *, is_unique: bool) -> str:
    """Return the key of an external object: its name, with a hash if needed.

    The hash is needed if the name is not a valid key or another object may share it. is_unique: whether no other object
    has its name.
    """
    metadata = object_fields.mapping(item, "metadata")
    name, namespace = metadata.get("name"), str(metadata.get("namespace", ""))
    if not isinstance(name, str):
        return ""
    if is_unique and members.KEY.fullmatch(name):
        return name
    whole = name if is_unique else f"{namespace}-{name}"
    start = NO_KEY.sub("-", whole.lower())[: members.KEY_LENGTH - names.DIGEST_LENGTH - 1].strip("-")
    return f"{start}-{names.digest(namespace, name)}"


def list_items(value: Any) -> list[tuple[str | None, Any]] | None:
    """Return the elements with their keys in a map; None if the value is neither list nor map."""
    match value:
        case list():
            return [(None, item) for item in value]
        case dict():
            return sorted(value.items())
    return None


def name_elements(
    collection: AnalyzedCollection, items: list[tuple[str | None, Any]], evaluator: PartialEvaluator
) -> ChunkedWork[list[Element] | None]:
    """Give each element its key; None in case of an error."""
    elements: list[Element] = []
    taken: dict[str, int] = {}
    before = len(evaluator.mistakes)
    for index, (own, item) in enumerate(items):
        if index % MARKS_IN_A_PIECE == 0:
            yield
        if len(evaluator.mistakes) - before >= limits.SHOWN_MEMBERS:
            break
        given = str(index) if own is None else own
        if collection.is_of_objects and own is None:
            given = make_key(item, is_unique=collection.has_unique_names)
        element = Element(key=given, index=index, item=item)
        if (key := find_key(collection, element, taken, evaluator)) is not None:
            taken[key] = index
            elements.append(Element(key=key, index=index, item=item))
    return None if len(elements) < len(items) else elements


def find_key(
    collection: AnalyzedCollection, element: Element, taken: Mapping[str, int], evaluator: PartialEvaluator
) -> str | None:
    """Find the key of an element; None in case of an error. taken: the keys of other elements with their positions."""
    key: Any = element.key
    path = f"{collection.source.path}.forEach"
    if collection.key is not None:
        path = f"{collection.source.path}.key"
        with evaluator.for_member(element.constants, name=f"element {element.index}"):
            bound = evaluator.bind(collection.key, path=path)
        if not isinstance(bound, Constant):
            return None
        key = bound.value
    what = f"element {element.index} gives {error_hints.describe(key)}"
    if not isinstance(key, str) or not members.KEY.fullmatch(key):
        rule = f"at most {members.KEY_LENGTH} lower-case letters, digits and dashes, and no dash at an end"
        evaluator.note(path, f"{what}, but a key has {rule}; use another key")
    elif key in taken:
        evaluator.note(path, f"{what}, as element {taken[key]} does, but keys must be unique; use another key")
    else:
        return key
    return None


def describe_keys(elements: Iterable[Element]) -> str:
    """Return the first keys for a message."""
    keys = [each.key for each in elements]
    return enumeration.enumerate_names(keys) if keys else "none"
