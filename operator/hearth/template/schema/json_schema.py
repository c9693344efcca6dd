"""Validates the JSON Schema rules of parameters, and values against these rules, in linear time and within a budget.

It implements an allow-list of keywords of draft 2020-12, without references. `find_faults` requires rules that
`find_wrong_rules` accepts.
"""

from __future__ import annotations

import functools
import operator
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import orjson

from hearth.model import limits
from hearth.model.text import enumeration
from hearth.template.text import error_hints, patterns

Keys: TypeAlias = tuple[str | int, ...]
Result: TypeAlias = Generator["Fault | None", None, None]
"""Yields faults, and None at intervals as a pause."""
_LISTED = 12
_BYTES_PER_STEP = 64
_STEPS_IN_A_PIECE = 1_000
_PATTERNS_KEPT = 64
_BOUNDS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", operator.lt),
    "maximum": ("at most", operator.gt),
    "exclusiveMinimum": ("above", operator.le),
    "exclusiveMaximum": ("below", operator.ge),
}
_SIZES: Mapping[str, tuple[type[str] | type[list[Any]] | type[dict[str, Any]], str, str]] = {
    "minLength": (str, "at least", "characters"),
    "maxLength": (str, "at most", "characters"),
    "minItems": (list, "at least", "entries"),
    "maxItems": (list, "at most", "entries"),
    "minProperties": (dict, "at least", "entries"),
    "maxProperties": (dict, "at most", "entries"),
}
Found: TypeAlias = tuple[str, str]
"""The path below the rules, and the error there."""
Wrong: TypeAlias = Iterator[Found | None]
"""Yields all errors, and None after each nested schema as a pause."""

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
SENSITIVE = "sensitive"
"""The only keyword of Hearth. It applies to a parameter as a whole, so it is valid only at the top level."""
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("additionalProperties", "items", "not")
_KNOWN = "type, default, enum, minimum, pattern, items, properties …"


class Fault(NamedTuple):
    """One rule that a value violates."""

    keys: Keys
    """The path within the value."""
    word: str
    """The keyword of the rule."""
    message: str
    """May contain a part of the value."""


class Exhausted(Exception):
    """The budget is used up."""


class Budget:
    """The steps, of about a microsecond, for the values of one definition."""

    def __init__(self, steps: int = limits.RULE_STEPS) -> None:
        self.left = steps
        self._pause = 0

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises Exhausted."""
        self.left -= steps
        self._pause += steps
        if self.left < 0:
            raise Exhausted

    def is_pause_due(self) -> bool:
        """Return whether a pause is due for other work; resets the counter."""
        is_due = self._pause >= _STEPS_IN_A_PIECE
        if is_due:
            self._pause = 0
        return is_due


class Effort:
    """The remaining effort for the errors and rules of one template: hints, comparisons."""

    def __init__(self) -> None:
        self.hints = limits.HINTED_MISTAKES
        """Number of misspelled words to compare with the known words."""
        self.budget = Budget()

    def hint(self, word: str, candidates: Iterable[str]) -> str:
        """Return a hint, or nothing."""
        if self.hints <= 0:
            return ""
        self.hints -= 1
        return error_hints.did_you_mean(word, candidates)


def find_faults(schema: Any, value: Any, budget: Budget) -> Result:
    """Find every rule of `schema` that `value` violates. Raises Exhausted."""
    return _Check(budget).find(schema, value, ())


class _Check:
    """One value, or several, against one schema."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._choices: dict[int, frozenset[bytes]] = {}
        """By the identity of an `enum`, its values."""
        self._patterns: OrderedDict[str, Any] = OrderedDict()
        """The most recently used patterns. All of them might take too much memory."""

    def find(self, schema: Any, value: Any, keys: Keys) -> Result:
        """Find the rules that `value` at `keys` violates."""
        if schema is False:
            yield Fault(keys, "false", f"no value is allowed here, found {error_hints.describe(value)}")
        if not isinstance(schema, dict):
            return
        for word, rule in schema.items():
            self._budget.spend()
            if self._budget.is_pause_due():
                yield None
            check = _CHECKS.get(word)
            if check is not None:
                yield from check(self, rule, value, keys, schema)

    def is_valid(self, schema: Any, value: Any) -> Generator[Fault | None, None, bool]:
        """Return whether `value` violates no rule."""
        for found in self.find(schema, value, ()):
            if found is not None:
                return False
            yield None
        return True

    def find_type(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        wanted = rule if isinstance(rule, list) else [rule]
        if not any(is_of(value, each) for each in wanted):
            yield Fault(keys, "type", f"must be of type {' or '.join(wanted)}, found {error_hints.describe(value)}")

    def find_enum(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        choices = self._choices.get(id(rule))
        if choices is None:
            choices = self._choices[id(rule)] = frozenset(map(write_canonically, rule))
        written = write_canonically(value)
        self._budget.spend(len(written) // _BYTES_PER_STEP)
        if written not in choices:
            shown = (error_hints.quote(each) if isinstance(each, str) else error_hints.describe(each) for each in rule)
            listed = enumeration.enumerate_first(shown, count=len(rule), most=_LISTED)
            yield Fault(keys, "enum", f"must be one of {listed}, found {error_hints.describe(value)}")

    def find_const(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        written = write_canonically(value)
        self._budget.spend(len(written) // _BYTES_PER_STEP)
        if written != write_canonically(rule):
            yield Fault(keys, "const", f"must be {error_hints.describe(rule)}, found {error_hints.describe(value)}")

    def find_bound(self, rule: Any, value: Any, keys: Keys, _: Any, *, word: str) -> Result:
        bound, is_broken = _BOUNDS[word]
        if is_of(value, "number") and is_broken(value, rule):
            yield Fault(keys, word, f"must be {bound} {rule}, found {error_hints.describe(value)}")

    def find_size(self, rule: Any, value: Any, keys: Keys, _: Any, *, word: str) -> Result:
        sort, bound, unit = _SIZES[word]
        if isinstance(value, sort) and (len(value) < rule if bound == "at least" else len(value) > rule):
            yield Fault(keys, word, f"must have {bound} {rule} {unit}, found {len(value)}")

    def find_multiple(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if is_of(value, "number") and not is_multiple(value, rule):
            yield Fault(keys, "multipleOf", f"must be a multiple of {rule}, found {error_hints.describe(value)}")

    def find_pattern(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if not isinstance(value, str):
            return
        try:
            compiled = self.compile(rule)
            self._budget.spend(patterns.find_cost(compiled, value))
        except patterns.TooLong as error:
            yield Fault(keys, "pattern", str(error))
            return
        if not patterns.is_found(compiled, value):
            yield Fault(keys, "pattern", f"must match {error_hints.quote(rule)}, found {error_hints.describe(value)}")

    def compile(self, pattern: str) -> Any:
        """Return the compiled pattern."""
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = patterns.compile_pattern(pattern)
            self._budget.spend(patterns.find_cost_of_making(known))
            if len(self._patterns) > _PATTERNS_KEPT:
                self._patterns.popitem(last=False)
        return known

    def find_unique(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if not rule or not isinstance(value, list):
            return
        seen: dict[bytes, int] = {}
        for at, item in enumerate(value):
            written = write_canonically(item)
            self._budget.spend(1 + len(written) // _BYTES_PER_STEP)
            if self._budget.is_pause_due():
                yield None
            first = seen.setdefault(written, at)
            if first != at:
                yield Fault(keys, "uniqueItems", f"must not have duplicate entries, found [{at}] equal to [{first}]")
                return

    def find_items(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if isinstance(value, list):
            for at, item in enumerate(value):
                yield from self.find(rule, item, (*keys, at))

    def find_properties(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if isinstance(value, dict):
            for name, inner in rule.items():
                if name in value:
                    yield from self.find(inner, value[name], (*keys, name))

    def find_additional(self, rule: Any, value: Any, keys: Keys, schema: Any) -> Result:
        if not isinstance(value, dict) or rule is True:
            return
        known = schema.get("properties") or {}
        for name, inner in value.items():
            if name in known:
                continue
            if rule is False:
                yield Fault(keys, "additionalProperties", f"{error_hints.quote(name)} is not one of the properties")
            else:
                yield from self.find(rule, inner, (*keys, name))

    def find_required(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if isinstance(value, dict):
            for name in rule:
                if name not in value:
                    yield Fault(keys, "required", f"{error_hints.quote(name)} is a required property")

    def find_all_of(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        for schema in rule:
            yield from self.find(schema, value, keys)

    def find_any_of(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        for schema in rule:
            if (yield from self.is_valid(schema, value)):
                return
        yield Fault(
            keys, "anyOf", f"must match one of the {len(rule)} rules of anyOf, found {error_hints.describe(value)}"
        )

    def find_one_of(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        fitting = 0
        for schema in rule:
            if (yield from self.is_valid(schema, value)):
                fitting += 1
        if fitting != 1:
            bound = f"must match exactly one of the {len(rule)} rules of oneOf but matches {fitting}"
            yield Fault(keys, "oneOf", f"{bound}, found {error_hints.describe(value)}")

    def find_not(self, rule: Any, value: Any, keys: Keys, _: Any) -> Result:
        if (yield from self.is_valid(rule, value)):
            yield Fault(keys, "not", f"must not match the rules of not, found {error_hints.describe(value)}")


_Find: TypeAlias = Callable[[_Check, Any, Any, Keys, Any], Result]


_CHECKS: Mapping[str, _Find] = {
    "type": _Check.find_type,
    "enum": _Check.find_enum,
    "const": _Check.find_const,
    "multipleOf": _Check.find_multiple,
    "pattern": _Check.find_pattern,
    "uniqueItems": _Check.find_unique,
    "items": _Check.find_items,
    "properties": _Check.find_properties,
    "additionalProperties": _Check.find_additional,
    "required": _Check.find_required,
    "allOf": _Check.find_all_of,
    "anyOf": _Check.find_any_of,
    "oneOf": _Check.find_one_of,
    "not": _Check.find_not,
    **{word: functools.partial(_Check.find_bound, word=word) for word in _BOUNDS},
    **{word: functools.partial(_Check.find_size, word=word) for word in _SIZES},
}


def is_of(value: Any, wanted: str) -> bool:
    """Return whether `value` is of a JSON Schema type; 2.0 is an integer and true is not a number."""
    match wanted:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return wanted == "number" or isinstance(value, int) or value.is_integer()


def is_multiple(value: float, of: float) -> bool:
    """Return whether `value` is a multiple, within float precision."""
    if isinstance(of, int):
        return value % of == 0
    quotient = value / of
    try:
        return int(quotient) == quotient
    except OverflowError:
        return Fraction(value) % Fraction(of) == 0


def write_canonically(value: Any) -> bytes:
    """Return the same JSON for equal values: keys sorted, 1.0 as 1."""
    written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if b"." in written or b"e" in written:
        return orjson.dumps(with_integers(value), option=orjson.OPT_SORT_KEYS)
    return written


def with_integers(value: Any) -> Any:
    """Return `value` with whole floats as integers, within the range of JSON."""
    match value:
        case float() if value.is_integer() and abs(value) < 2**63:
            return int(value)
        case list():
            return [with_integers(inner) for inner in value]
        case dict():
            return {key: with_integers(inner) for key, inner in value.items()}
    return value


def find_wrong_rules(rules: Any, effort: Effort, *, path: str = "") -> Wrong:
    """Find the errors in the rules under `path` and in nested ones. Raises Exhausted."""
    if isinstance(rules, bool):
        return
    if not isinstance(rules, dict):
        yield path, f"must be of type object or boolean, found {error_hints.describe(rules)}"
        return
    for word, value in rules.items():
        if word == SENSITIVE and not path:
            continue
        place = path + error_hints.write_key(str(word))
        check = _RULE_CHECKS.get(word)
        if check is None:
            hint = effort.hint(str(word), WORDS if path else WORDS | {SENSITIVE})
            known = "" if hint else f"; known rules: {_KNOWN}"
            yield place, f"'{error_hints.shorten(str(word))}' is not a parameter rule{hint or known}"
        else:
            yield from ((place + where, message) for where, message in check(value, effort))
        yield from find_wrong_rules_within(word, value, effort, place)
    effort.budget.spend()
    yield None


def find_wrong_rules_within(word: str, value: Any, effort: Effort, path: str) -> Wrong:
    """Find the errors in the rules under a keyword that contains schemas."""
    if word in _SCHEMAS:
        yield from find_wrong_rules(value, effort, path=path)
    elif word == "properties" and isinstance(value, dict):
        for name, inner in value.items():
            yield from find_wrong_rules(inner, effort, path=path + error_hints.write_key(str(name)))
    elif word in _SCHEMA_LISTS and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from find_wrong_rules(inner, effort, path=f"{path}[{at}]")


_RuleCheck: TypeAlias = Callable[[Any, Effort], Iterator[Found]]


def _accept_anything(_: Any, __: Effort) -> Iterator[Found]:
    return iter(())


def _of(*types: str) -> _RuleCheck:
    def check(value: Any, _: Effort) -> Iterator[Found]:
        if not any(is_of(value, each) for each in types):
            yield "", f"must be of type {' or '.join(types)}, found {error_hints.describe(value)}"

    return check


def _count(value: Any, _: Effort) -> Iterator[Found]:
    if not is_of(value, "integer"):
        yield "", f"must be of type integer, found {error_hints.describe(value)}"
    elif value < 0:
        yield "", f"must be at least 0, found {error_hints.describe(value)}"


def _factor(value: Any, _: Effort) -> Iterator[Found]:
    if not is_of(value, "number"):
        yield "", f"must be of type number, found {error_hints.describe(value)}"
    elif value <= 0:
        yield "", f"must be above 0, found {error_hints.describe(value)}"


def _type(value: Any, effort: Effort) -> Iterator[Found]:
    stated = value if isinstance(value, list) else [value]
    for each in stated:
        if not isinstance(each, str):
            yield "", f"must be one of {', '.join(TYPES)}, found {error_hints.describe(each)}"
        elif each not in TYPES:
            hint = effort.hint(each, TYPES) or f"; one of {', '.join(TYPES)}"
            yield "", f"there is no type '{error_hints.shorten(each)}'{hint}"
    if not stated:
        yield "", "must have at least 1 entries, found 0"


def _texts(value: Any, _: Effort) -> Iterator[Found]:
    if not isinstance(value, list):
        yield "", f"must be of type array, found {error_hints.describe(value)}"
        return
    for at, each in enumerate(value):
        if not isinstance(each, str):
            yield f"[{at}]", f"must be of type string, found {error_hints.describe(each)}"


def _schemas(value: Any, _: Effort) -> Iterator[Found]:
    if not isinstance(value, list):
        yield "", f"must be of type array, found {error_hints.describe(value)}"
    elif not value:
        yield "", "must have at least 1 entries, found 0"


def _pattern(value: Any, effort: Effort) -> Iterator[Found]:
    if not isinstance(value, str):
        yield "", f"must be of type string, found {error_hints.describe(value)}"
        return
    try:
        effort.budget.spend(patterns.find_cost_of_making(patterns.compile_pattern(value)))
    except patterns.Unsupported as error:
        yield "", f"is not a valid regular expression: {error}; found {error_hints.quote(value)}"


_RULE_CHECKS: Mapping[str, _RuleCheck] = {
    **dict.fromkeys(("const", "default", *_SCHEMAS), _accept_anything),
    **dict.fromkeys(("description", "format", "title"), _of("string")),
    **dict.fromkeys(_BOUNDS, _of("number")),
    **dict.fromkeys(_SIZES, _count),
    **dict.fromkeys(("enum", "examples"), _of("array")),
    **dict.fromkeys(_SCHEMA_LISTS, _schemas),
    "multipleOf": _factor,
    "pattern": _pattern,
    "properties": _of("object"),
    "required": _texts,
    "type": _type,
    "uniqueItems": _of("boolean"),
}
WORDS = frozenset(_RULE_CHECKS)
