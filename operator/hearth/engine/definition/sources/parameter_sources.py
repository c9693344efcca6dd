"""Sources of parameters besides the Stack: ConfigMaps and Secrets of its namespace.

Reads them and reports missing ones. Must not know the use of the parameters.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import yaml

from hearth.engine.definition.sources.source_reader import SourceReader
from hearth.model import limits, value_class
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import ApiStatusError, InvalidDefinition, Mistake, SourceForbidden, SourceNotFound
from hearth.model.kinds import ObjectRef
from hearth.template.blueprint import Definition, Origin
from hearth.template.compiler import sensitivity
from hearth.template.schema import parameters
from hearth.template.text import bounds, kubectl_yaml

KINDS: Mapping[str, str] = {"secretRef": "Secret", "configMapRef": "ConfigMap"}
"""Kind by its field name in `spec.parametersFrom`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceRef:
    """One entry of `spec.parametersFrom`."""

    ref: ObjectRef
    place: str
    """`spec.parametersFrom[0]`."""
    is_optional: bool = False
    is_recorded: bool = False
    """Whether an earlier revision names the source, which no user can change."""
    key: str = ""
    """The one key that is read; "" for all."""
    parameter: str = ""
    """The parameter that the one key sets."""

    def __str__(self) -> str:
        return f"{self.place} ({self.ref})"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceValue:
    """One key of a source."""

    text: str | None = field(repr=False)
    """None if the value is not text."""
    origin: Origin


def find_references(namespace: str, spec: Mapping[str, Any]) -> tuple[SourceRef, ...]:
    """Return the sources of parameters in order."""
    return tuple(
        SourceRef(
            ref=ObjectRef(group="", kind=kind, namespace=namespace, name=entry[word].get("name", "")),
            place=f"spec.parametersFrom[{at}]",
            is_optional=bool(entry[word].get("optional")),
            key=entry.get("key", ""),
            parameter=entry.get("parameter", ""),
        )
        for at, entry in enumerate(spec.get("parametersFrom") or ())
        for word, kind in KINDS.items()
        if entry.get(word) is not None
    )


async def read(reader: SourceReader, references: Sequence[SourceRef]) -> dict[str, SourceValue]:
    """Read every key of every source; the last source of a key wins.

    Raises SourceNotFound with the names of all missing sources, SourceForbidden if the account may not read one.
    """
    found: dict[str, SourceValue] = {}
    missing: list[str] = []
    is_forbidden = False
    for reference in references:
        try:
            data = await reader.get_source(reference.ref, place=reference.place)
        except SourceForbidden as error:
            is_forbidden = True
            missing.append(str(error))
            continue
        except ApiStatusError as error:
            # Any other answer leads to a retry.
            if not error.is_not_found:
                raise
            if not reference.is_optional:
                other_way = "" if reference.is_recorded else ", or set optional: true"
                missing.append(
                    f"{reference.place}: {reference.ref} does not exist in namespace {reference.ref.namespace}; create it{other_way}"
                )
            continue
        found.update(parse_source(reference, data))
    if missing:
        raise (SourceForbidden if is_forbidden else SourceNotFound)("\n".join(missing))
    return found


def parse_source(reference: SourceRef, data: Mapping[str, str]) -> dict[str, SourceValue]:
    """Return the keys of one source."""
    ref = reference.ref
    return {
        reference.parameter or key: SourceValue(
            text=decode(raw) if ref.kind == "Secret" else raw,
            origin=Origin(kind=ref.kind, name=ref.name, key=key, place=f"{reference.place} ({ref} key {key})"),
        )
        for key, raw in data.items()
        if reference.key in ("", key)
    }


def decode(raw: str) -> str | None:
    """Decode a Secret's value; None if it is not text."""
    try:
        return base64.b64decode(raw or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def apply_sources(
    template: Object, given: Any, found: Mapping[str, SourceValue], *, template_path: str = "spec.template"
) -> ChunkedWork[Definition]:
    """Build the definition; sources supply declared parameters that the spec does not set.

    Raises InvalidDefinition if a used value is not text or a limit is exceeded.
    """
    excess = bounds.check(given, path="spec.parameters")
    if excess:
        raise InvalidDefinition(excess)
    stated = sensitivity.find_stated(template)
    if not found or not isinstance(given, dict):
        return Definition(template=template, parameters=given, template_path=template_path)
    taken = {name: found[name] for name in stated if name in found and name not in given}
    wrong = [
        Mistake(path=each.origin.place, message="is not UTF-8 text; only text can be a parameter")
        for each in taken.values()
        if each.text is None
    ]
    if wrong:
        raise InvalidDefinition(wrong)
    check_size(taken)
    values = yield from parse_values(stated, taken)
    return Definition(
        template=template,
        parameters={**given, **values},
        origins={name: each.origin for name, each in taken.items()},
        template_path=template_path,
    )


def check_size(taken: Mapping[str, SourceValue]) -> None:
    """Check the total size of all values. Raises InvalidDefinition if it is too large."""
    size = sum(len(each.text or "") for each in taken.values())
    if size > limits.PARAMETER_BYTES:
        message = f"gives {size} characters, but at most {limits.PARAMETER_BYTES} are allowed; remove values"
        raise InvalidDefinition([Mistake(path="spec.parametersFrom", message=message)])


def parse_values(stated: Mapping[str, Any], taken: Mapping[str, SourceValue]) -> ChunkedWork[dict[str, Any]]:
    """Parse the texts by name. Raises InvalidDefinition for values beyond the limits."""
    values: dict[str, Any] = {}
    wrong: list[Mistake] = []
    for name, each in taken.items():
        try:
            values[name] = yield from parameters.parse_text(stated[name], each.text or "")
        except yaml.YAMLError as error:
            wrong.append(Mistake(path=each.origin.place, message=kubectl_yaml.describe(error)))
        yield
    wrong += bounds.check(list(values.values()), path="spec.parametersFrom")
    if wrong:
        raise InvalidDefinition(wrong)
    return values


def require_parameters(definition: Definition, references: Iterable[SourceRef]) -> None:
    """Check that all parameters have a value. Raises SourceNotFound if a source could still supply a missing one."""
    listed = ", ".join(str(reference.ref) for reference in references)
    given: Any = definition.parameters
    if not listed or not isinstance(given, dict):
        return
    stated = sensitivity.find_stated(definition.template)
    missing = [name for name, rules in stated.items() if name not in given and is_required(rules)]
    if missing:
        lines = [
            f"spec.parameters.{name}: is missing, and no source has the key {name}: {listed}; "
            f"add it to one of them, or set it here"
            for name in missing
        ]
        raise SourceNotFound("\n".join(lines))


def is_required(rules: Any) -> bool:
    """Return whether a parameter has no default."""
    return isinstance(rules, dict) and "default" not in rules


def find_certain(error: InvalidDefinition, definition: Definition) -> list[Mistake]:
    """Return the mistakes of a definition without values: not those that only say which values are missing."""
    return [each for each in error.mistakes if not each.path.startswith(f"{definition.parameters_path}.")]
