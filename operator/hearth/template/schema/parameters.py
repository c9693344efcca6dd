"""Validates the JSON Schema rules of parameters, and resolves the value of each parameter."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import orjson
import yaml

from hearth.model import limits
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.text import redaction
from hearth.template.blueprint import Origin
from hearth.template.schema import json_schema, shapes
from hearth.template.schema.json_schema import Budget, Effort, Fault
from hearth.template.schema.shapes import Shape
from hearth.template.text import bounds, error_hints, kubectl_yaml

Rules: TypeAlias = Mapping[str, Any]
Found = TypeVar("Found", Fault, tuple[str, str])

RULES_KEPT = 2_048
RULES_LENGTH_KEPT = 4_096
"""Maximum characters of rules whose errors are cached. Larger rules are rare and take too much memory."""
_LARGEST = 2**63
"""Above it, a float has no integer that an expression can hold."""
PARAMETERS: Final = "params"
"""The name under which expressions read parameters."""
SHAPES_KEPT = 1_024
SHAPE_LENGTH_KEPT = 16_384
"""Maximum characters of all rules together for their shape to be cached."""
EXHAUSTED = "takes too long to validate together with all other parameters; simplify rules or values"


def check_rules(name: str, rules: Any, *, path: str, effort: Effort) -> ChunkedWork[list[Mistake]]:
    """Find the errors in the rules of one parameter at `path`."""
    if not isinstance(rules, dict):
        found = error_hints.describe(rules)
        message = f"must be a map of rules, found {found}; write e.g. {name}: {{type: string, default: …}}"
        return [Mistake(path=path, message=message)]
    try:
        written = write(rules)
    except TypeError as error:
        return [Mistake(path=path, message=f"cannot be read as JSON: {error}; use plain values with text as keys")]
    wrong = _known.get(written)
    if wrong is None:
        has_hints = effort.hints == limits.HINTED_MISTAKES
        wrong = yield from check_shape(rules, effort)
        if len(written) <= RULES_LENGTH_KEPT and (has_hints or not wrong):
            remember(written, wrong)
    return [Mistake(path=path + where, message=message) for where, message in wrong]


_known: OrderedDict[str, tuple[tuple[str, str], ...]] = OrderedDict()


def remember(written: str, wrong: tuple[tuple[str, str], ...]) -> None:
    """Cache the errors in rules."""
    _known[written] = wrong
    if len(_known) > RULES_KEPT:
        _known.popitem(last=False)


def write(rules: Rules | Mapping[str, Rules]) -> str:
    """Return rules as JSON text, which is the same for equal rules and needs little memory. Raises TypeError."""
    return orjson.dumps(rules, option=orjson.OPT_SORT_KEYS).decode()


def check_shape(rules: Rules, effort: Effort) -> ChunkedWork[tuple[tuple[str, str], ...]]:
    """Find the errors in rules, with their paths; stop above the number that one message lists."""
    found = yield from collect(json_schema.find_wrong_rules(rules, effort), excess=("", EXHAUSTED))
    found += check_sensitive(rules)
    if not found:
        own = (("", rules),) if "default" in rules else ()
        for path, inner in (*own, *find_defaults(rules)):
            faults = yield from find_default_faults(inner, effort.budget)
            found += [(f"{path}.default{write_keys(fault.keys)}", fault.message) for fault in faults]
    return tuple(found)


def find_default_faults(rules: Rules, budget: Budget) -> ChunkedWork[list[Fault]]:
    """Find the rules that a default violates, nested defaults included."""
    try:
        default = fill_defaults(rules, rules["default"], budget)
    except json_schema.Exhausted:
        return [Fault((), "", EXHAUSTED)]
    return (yield from find_faults(rules, default, budget))


def find_faults(rules: Rules, value: Any, budget: Budget) -> ChunkedWork[list[Fault]]:
    """Find the rules that a value violates; stop above the number that one message lists."""
    return (yield from collect(json_schema.find_faults(rules, value, budget), excess=Fault((), "", EXHAUSTED)))


def collect(found: Iterable[Found | None], *, excess: Found) -> ChunkedWork[list[Found]]:
    """Return all findings, with pauses; stop above the number that one message lists.

    excess: replaces the remaining findings when the budget is used up.
    """
    kept: list[Found] = []
    try:
        for each in found:
            if each is None:
                yield
            else:
                kept.append(each)
            if len(kept) > limits.MISTAKES:
                break
    except json_schema.Exhausted:
        kept.append(excess)
    return kept


def check_sensitive(rules: Rules) -> list[tuple[str, str]]:
    """Find the errors in the use of `sensitive` in the rules."""
    stated = rules.get(json_schema.SENSITIVE, False)
    if not isinstance(stated, bool):
        return [(f".{json_schema.SENSITIVE}", f"must be true or false, found {error_hints.describe(stated)}")]
    if stated and "default" in rules:
        message = "would be stored and shown with the template; remove it, and set the value with spec.parametersFrom"
        return [(".default", message)]
    return []


def parse_text(rules: Any, text: str) -> ChunkedWork[Any]:
    """Parse a text from a source: as YAML, unless the rules accept text.

    Invalid YAML stays text; the validation of values reports it. Raises kubectl_yaml.Excess.
    """
    stated = rules.get("type") if isinstance(rules, dict) else None
    types = stated if isinstance(stated, list) else [stated]
    if stated is None or "string" in types:
        return text
    found: list[Any] = []
    try:
        for document in kubectl_yaml.read(text):
            if document is None:
                yield
            else:
                found.append(document.value)
    except kubectl_yaml.Excess:
        raise
    except yaml.YAMLError:
        return text
    return found[0] if len(found) == 1 else text


def resolve(  # noqa: PLR0913 -- a value or its mistake depends on each of them
    stated: Mapping[str, Rules],
    given: Mapping[str, Any],
    *,
    path: str,
    template_path: str,
    origins: Mapping[str, Origin] = MappingProxyType({}),
    sensitive: Collection[str] = (),
    effort: Effort | None = None,
) -> ChunkedWork[tuple[dict[str, Any], list[Mistake]]]:
    """Return the value of every parameter, and the errors in the given ones, at `path` if they have no origin.

    sensitive: the names of the parameters whose values no message may contain.
    """
    found: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    effort = effort or Effort()
    for name, rules in stated.items():
        yield
        if name in given:
            origin = origins.get(name)
            place = origin.place if origin is not None else f"{path}.{name}"
            rules_path = f"{template_path}.parameters.{name}"
            rule_place = Place(place, rules_path, is_sensitive=name in sensitive)
            value, wrong = yield from complete(rules, given[name], rule_place, effort.budget)
            mistakes += wrong
            if not wrong:
                found[name] = adapt(rules, value)
        elif "default" in rules:
            # The default was validated together with the fields that its rules add.
            found[name] = adapt(rules, fill_defaults(rules, rules["default"], effort.budget))
        else:
            next_step = f"set it, or a default in {template_path}.parameters.{name}.default"
            mistakes.append(Mistake(path=f"{path}.{name}", message=f"is missing; {next_step}"))
        if len(mistakes) > limits.MISTAKES:
            return found, mistakes
    mistakes += yield from find_undeclared(stated, given, effort, path=path, template_path=template_path)
    return found, mistakes


def find_undeclared(
    stated: Mapping[str, Rules], given: Mapping[str, Any], effort: Effort, *, path: str, template_path: str
) -> ChunkedWork[list[Mistake]]:
    """Find the values of parameters that are not declared."""
    mistakes: list[Mistake] = []
    for name in given:
        if name not in stated:
            hint = effort.hint(str(name), stated) or "; remove it, or declare it there"
            message = f"is not declared in {template_path}.parameters{hint}"
            mistakes.append(Mistake(path=f"{path}{error_hints.write_key(str(name))}", message=message))
            yield
        if len(mistakes) > limits.MISTAKES:
            break
    return mistakes


class Place(NamedTuple):
    """The location of a value."""

    path: str
    rules_path: str
    is_sensitive: bool = False
    """Whether no message may contain it."""


def complete(rules: Rules, value: Any, place: Place, budget: Budget) -> ChunkedWork[tuple[Any, list[Mistake]]]:
    """Return a value with defaults for its missing fields, and its errors."""
    try:
        filled = fill_defaults(rules, value, budget)
    except json_schema.Exhausted:
        return value, [Mistake(path=place.path, message=EXHAUSTED)]
    return filled, (yield from check_value(rules, filled, place, budget))


def fill_defaults(rules: Any, value: Any, budget: Budget) -> Any:
    """Return `value` with the default of each property that a map in it lacks.

    A missing map is not created. Unchanged parts are shared with `value`, which is not modified. Raises
    json_schema.Exhausted.
    """
    if not isinstance(rules, dict):
        return value
    budget.spend()
    if isinstance(value, dict):
        return fill_map(rules, value, budget)
    if isinstance(value, list) and isinstance(items := rules.get("items"), dict) and has_defaults(items):
        return [fill_defaults(items, each, budget) for each in value]
    return value


def fill_map(rules: Rules, value: Mapping[str, Any], budget: Budget) -> Any:
    """Fill a map, and the values in it."""
    properties = rules.get("properties")
    known: Rules = properties if isinstance(properties, dict) else {}
    further = rules.get("additionalProperties")
    filled = {name: fill_defaults(known.get(name, further), each, budget) for name, each in value.items()}
    for name, inner in known.items():
        if name not in value and isinstance(inner, dict) and "default" in inner:
            filled[name] = fill_defaults(inner, inner["default"], budget)
            # Count the whole default at each place where it is used, because a list may have many elements with a large
            # default.
            budget.spend(count_values(filled[name]))
    return filled


def has_defaults(rules: Any) -> bool:
    """Whether rules nested in these have a default."""
    return next(find_defaults(rules), None) is not None


def find_defaults(rules: Any, path: str = "") -> Iterator[tuple[str, Rules]]:
    """Yield the rules of each property with a default within these rules, with its path in them."""
    if not isinstance(rules, dict):
        return
    properties = rules.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        place = f"{path}.properties{error_hints.write_key(str(name))}"
        if isinstance(inner, dict) and "default" in inner:
            yield place, inner
        yield from find_defaults(inner, place)
    for word in ("additionalProperties", "items"):
        yield from find_defaults(rules.get(word), f"{path}.{word}")


def count_values(value: Any) -> int:
    """Count the values within a value, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(count_values, value.values()))
    return 1 + sum(map(count_values, value)) if isinstance(value, list) else 1


def check_value(rules: Rules, value: Any, place: Place, budget: Budget) -> ChunkedWork[list[Mistake]]:
    """Find the errors in one value."""
    if place.is_sensitive and any(redaction.has_mask(text) for text in redaction.find_texts(value)):
        return [Mistake(path=place.path, message=f"{redaction.MASKED}; set the value itself")]
    if bounds.has_large_integer(value):
        is_shown = isinstance(value, int) and not place.is_sensitive
        shown = f", found {error_hints.describe(value)}" if is_shown else ", and so must all integers within it"
        return [Mistake(path=place.path, message=f"must be a 64-bit integer{shown}; write it as text")]
    faults = yield from find_faults(rules, value, budget)
    if place.is_sensitive:
        found = [(place.path, message) for message in dict.fromkeys(describe_hidden(fault, rules) for fault in faults)]
    else:
        found = [(place.path + write_keys(fault.keys), fault.message) for fault in faults]
    next_step = f"change it, or the rule in {place.rules_path}"
    return [Mistake(path=path, message=f"{message}; {next_step}") for path, message in found]


def write_keys(keys: json_schema.Keys) -> str:
    """Format the path into a value as kubectl writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else error_hints.write_key(step) for step in keys)


def describe_hidden(fault: Fault, rules: Rules) -> str:
    """Describe the error in a sensitive value without showing the value or its keys."""
    if fault.word == "type" and not fault.keys:
        stated = rules.get("type")
        wanted = " or ".join(stated) if isinstance(stated, list) else stated
        return f"must be of type {wanted}, but is not (the value is sensitive and not shown)"
    if not fault.word:
        return fault.message
    return f"breaks the rule '{fault.word}' (the value is sensitive and not shown)"


def adapt(rules: Any, value: Any) -> Any:
    """Convert `value` for expressions: 2 becomes 2.0 for a number, and 2.0 becomes 2 for an integer."""
    if not isinstance(rules, dict):
        return value
    stated = rules.get("type")
    if stated == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if stated == "integer" and isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        return int(value)
    if isinstance(value, dict) and isinstance(properties := rules.get("properties"), dict):
        return {name: adapt(properties.get(name), inner) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(items := rules.get("items"), dict):
        return [adapt(items, inner) for inner in value]
    return value


def find_shape(stated: Mapping[str, Rules], *, name: str = PARAMETERS) -> Shape:
    """Find the shape of the map with that name, by the rules of its entries.

    Only shapes of `params` share a cache: a template with many values has many shapes of `values`.
    """
    written = write(stated)
    if len(written) > limits.SHAPE_LENGTH:
        return make_shape(write({entry: {} for entry in stated}), name)
    is_cached = len(written) <= SHAPE_LENGTH_KEPT
    find = (find_parameter_shape if name == PARAMETERS else find_other_shape) if is_cached else make_shape
    return find(written, name)


def make_shape(written: str, name: str) -> Shape:
    """Make the shape of a map from the rules of its entries, written as JSON."""
    return shapes.make_closed(orjson.loads(written), name=name)


find_parameter_shape: Final = functools.lru_cache(maxsize=SHAPES_KEPT)(make_shape)
find_other_shape: Final = functools.lru_cache(maxsize=SHAPES_KEPT)(make_shape)
