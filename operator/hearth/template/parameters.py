"""Parameters: the rules that a template states in words of JSON Schema, and the values that come of them.

Knows JSON Schema; nothing of expressions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import yaml

from hearth.model.problems import Mistake
from hearth.template import hints, plain_yaml, shapes
from hearth.template.blueprint import Origin
from hearth.template.shapes import Shape
from hearth.template.work import Pieces

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Rules: TypeAlias = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
WORDS = frozenset(
    "additionalProperties allOf anyOf const default description enum examples exclusiveMaximum exclusiveMinimum format items"
    " maxItems maxLength maxProperties maximum minItems minLength minProperties minimum multipleOf not oneOf pattern"
    " properties required title type uniqueItems".split()
)
SENSITIVE = "sensitive"
"""The one word that is ours; it is about a parameter as a whole, so it stands at the top only."""
RULES_KEPT = 2_048
_INTEGERS = range(-(2**63), 2**63)


def check_rules(name: str, rules: Any, *, path: str) -> list[Mistake]:
    """What is wrong with the rules of one parameter, which stand at `path`."""
    if not isinstance(rules, dict):
        found = hints.describe(rules)
        message = f"must be a map of rules, found {found}; write e.g. {name}: {{type: string, default: …}}"
        return [Mistake(path=path, message=message)]
    try:
        written = write(rules)
    except TypeError as error:
        return [Mistake(path=path, message=f"cannot be read as JSON: {error}; use plain values with text as keys")]
    return [Mistake(path=path + where, message=message) for where, message in judge_rules(written)]


def write(rules: Rules | Mapping[str, Rules]) -> str:
    """Rules as JSON, the same for equal ones; raises TypeError. As text, which takes the memory that it is long."""
    return orjson.dumps(rules, option=orjson.OPT_SORT_KEYS).decode()


@functools.lru_cache(maxsize=RULES_KEPT)
def judge_rules(written: str) -> tuple[tuple[str, str], ...]:
    """What is wrong with rules, written as JSON: where below them, and what."""
    rules = orjson.loads(written)
    found = list(find_unknown_words(rules, path=""))
    found += find_wrong_words(rules)
    if not found and "default" in rules:
        errors = _validator(written).iter_errors(rules["default"])
        found = [(f".default{where}", message) for where, message in map(describe_error, errors)]
    return tuple(found)


def find_unknown_words(rules: Any, *, path: str) -> Iterator[tuple[str, str]]:
    """Words that are not known, here and in the schemas within."""
    if not isinstance(rules, dict):
        return
    for word, value in rules.items():
        if word == SENSITIVE and not path:
            continue
        if word not in WORDS:
            hint = hints.did_you_mean(word, WORDS if path else WORDS | {SENSITIVE})
            known = "" if hint else "; known are type, default, enum, minimum, pattern, items, properties …"
            yield path + hints.write_key(word), f"'{word}' is no rule of a parameter{hint or known}"
        elif word == "properties" and isinstance(value, dict):
            for name, inner in value.items():
                yield from find_unknown_words(inner, path=f"{path}.properties{hints.write_key(name)}")
        elif word in ("items", "additionalProperties", "not"):
            yield from find_unknown_words(value, path=f"{path}.{word}")
        elif word in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            for at, inner in enumerate(value):
                yield from find_unknown_words(inner, path=f"{path}.{word}[{at}]")


def find_wrong_words(rules: Rules) -> list[tuple[str, str]]:
    """Rules whose own value is wrong, e.g. a `minimum` that is text."""
    stated = rules.get("type")
    if isinstance(stated, str) and stated not in TYPES:
        hint = hints.did_you_mean(stated, TYPES) or f"; one of {', '.join(TYPES)}"
        return [(".type", f"there is no type '{stated}'{hint}")]
    found = [describe_error(error) for error in _rules_validator().iter_errors(rules)]
    found += check_sensitive(rules)
    pattern = rules.get("pattern")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            found.append((".pattern", f"is no regular expression: {error}; found {hints.quote(pattern)}"))
    return found


def check_sensitive(rules: Rules) -> list[tuple[str, str]]:
    """What is wrong with how the rules keep a secret."""
    stated = rules.get(SENSITIVE, False)
    if not isinstance(stated, bool):
        return [(f".{SENSITIVE}", f"must be true or false, found {hints.describe(stated)}")]
    if stated and "default" in rules:
        message = "would be stored and shown with the template; take it out, and give the value by spec.parametersFrom"
        return [(".default", message)]
    return []


def parse_text(rules: Any, text: str) -> Pieces[Any]:
    """The value that a text from elsewhere stands for: read as YAML, unless the rules take text.

    What cannot be read stays text, and is told of where values are checked. Raises plain_yaml.Excess.
    """
    stated = rules.get("type") if isinstance(rules, dict) else None
    types = stated if isinstance(stated, list) else [stated]
    if stated is None or "string" in types:
        return text
    found: list[Any] = []
    try:
        for document in plain_yaml.read(text):
            if document is None:
                yield
            else:
                found.append(document.value)
    except plain_yaml.Excess:
        raise
    except yaml.YAMLError:
        return text
    return found[0] if len(found) == 1 else text


def resolve(
    stated: Mapping[str, Rules],
    given: Mapping[str, Any],
    *,
    path: str,
    template_path: str,
    origins: Mapping[str, Origin] = MappingProxyType({}),
    sensitive: Collection[str] = (),
) -> tuple[dict[str, Any], list[Mistake]]:
    """The value of every parameter, and what is wrong with those that were given, at `path` where they have no origin.

    sensitive: the names of those whose values no message may hold.
    """
    found: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for name, rules in stated.items():
        if name in given:
            origin = origins.get(name)
            place = origin.place if origin is not None else f"{path}.{name}"
            rules_path = f"{template_path}.parameters.{name}"
            wrong = check_value(rules, given[name], path=place, rules_path=rules_path, is_sensitive=name in sensitive)
            mistakes += wrong
            found[name] = adapt(rules, given[name])
        elif "default" in rules:
            found[name] = adapt(rules, rules["default"])
        else:
            next_step = f"give it, or a default in {template_path}.parameters.{name}.default"
            mistakes.append(Mistake(path=f"{path}.{name}", message=f"is missing; {next_step}"))
    for name in given:
        if name not in stated:
            hint = hints.did_you_mean(name, stated) or "; take it out, or declare it there"
            message = f"is not declared in {template_path}.parameters{hint}"
            mistakes.append(Mistake(path=f"{path}{hints.write_key(name)}", message=message))
    return found, mistakes


def check_value(rules: Rules, value: Any, *, path: str, rules_path: str, is_sensitive: bool = False) -> list[Mistake]:
    """What is wrong with one value. is_sensitive: whether no message may hold it."""
    if isinstance(value, int) and value not in _INTEGERS:
        found = "" if is_sensitive else f", found {value}"
        return [Mistake(path=path, message=f"must be an integer of 64 bits{found}; write it as text")]
    errors = list(_validator(write(rules)).iter_errors(value))
    describe = describe_hidden_error if is_sensitive else describe_error
    return [
        Mistake(path=path + where, message=f"{message}; change it, or the rule in {rules_path}")
        for where, message in map(describe, errors)
    ]


@functools.cache
def _rules_validator() -> Any:
    """What judges rules themselves."""
    # Here and below imported late: many a process never sees a template with parameters.
    import jsonschema

    return jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)


@functools.lru_cache(maxsize=RULES_KEPT)
def _validator(written: str) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(orjson.loads(written))


def describe_error(error: ValidationError) -> tuple[str, str]:
    """Where below the value an error lies, and what it is in our words."""
    where = "".join(f"[{step}]" if isinstance(step, int) else hints.write_key(step) for step in error.absolute_path)
    value: Any = error.validator_value
    instance: Any = error.instance
    rule, found = str(error.validator), hints.describe(instance)
    match rule:
        case "type":
            wanted = " or ".join(value) if isinstance(value, list) else value
            return where, f"must be of type {wanted}, found {found}"
        case "enum":
            return where, f"must be one of {', '.join(map(hints.describe, value))}, found {found}"
        case "pattern":
            return where, f"must match '{value}', found {found}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            bound = {
                "minimum": "at least",
                "exclusiveMinimum": "above",
                "maximum": "at most",
                "exclusiveMaximum": "below",
            }
            return where, f"must be {bound[rule]} {value}, found {found}"
        case "minLength" | "maxLength":
            bound = {"minLength": "at least", "maxLength": "at most"}
            return where, f"must have {bound[rule]} {value} characters, found {len(instance)}"
        case "minItems" | "maxItems":
            bound = {"minItems": "at least", "maxItems": "at most"}
            return where, f"must have {bound[rule]} {value} entries, found {len(instance)}"
    return where, error.message


def describe_hidden_error(error: ValidationError) -> tuple[str, str]:
    """What an error in a sensitive value is, without the value, nor the keys within it."""
    if error.validator == "type":
        value: Any = error.validator_value
        wanted = " or ".join(value) if isinstance(value, list) else value
        return "", f"must be of type {wanted}, and is not (it is sensitive, so it is not shown)"
    return "", f"breaks the rule '{error.validator}' (it is sensitive, so it is not shown)"


def adapt(rules: Rules, value: Any) -> Any:
    """`value` as expressions see it: where a number is wanted 2 is 2.0, and where an integer is, 2.0 is 2."""
    stated = rules.get("type")
    if stated == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if stated == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict) and isinstance(properties := rules.get("properties"), dict):
        return {name: adapt(properties.get(name) or {}, inner) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(items := rules.get("items"), dict):
        return [adapt(items, inner) for inner in value]
    return value


def find_shape(stated: Mapping[str, Rules]) -> Shape:
    """The form of `params`."""
    return make_shape(write(stated))


@functools.lru_cache(maxsize=RULES_KEPT)
def make_shape(written: str) -> Shape:
    """The form of `params` by the rules, written as JSON."""
    return shapes.make_closed(orjson.loads(written), name="params")
