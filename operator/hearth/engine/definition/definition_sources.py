"""Reads a Stack's template and parameters from their sources, as the account of the Stack.

A template is inline, or in one or more ConfigMaps or StackTemplates, optionally compressed. Parameters come from the
spec, ConfigMaps and Secrets. The operator reads StackTemplates, and the template of a StackDefinition, with its own
rights. Errors name the location of missing objects and invalid content.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import yaml

from hearth.engine import cooperative_work
from hearth.engine.cooperative_work import TakeTurn
from hearth.engine.ports import ManagementSources
from hearth.model import instance_fields, limits, packing, tenancy, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import ApiStatusError, InvalidDefinition, Mistake, SourceForbidden, SourceNotFound
from hearth.model.kinds import ObjectRef
from hearth.model.tenancy import Boundary
from hearth.template.blueprint import Definition, Origin
from hearth.template.compiler import sensitivity
from hearth.template.parser.template_parser import TEMPLATE_WORDS
from hearth.template.schema import parameters
from hearth.template.text import bounds, error_hints, kubectl_yaml, template_source

DEFAULT_KEY = "template.yaml"
COMPRESSED = ".gz"
"""Suffix of a key whose value in `binaryData` is compressed."""
INLINE_PATH = "spec.template"
UNITED_PATH = "spec.templateRefs"
"""Location in messages for a template that is merged from several objects."""
PARAMETER_KINDS: Mapping[str, str] = {"secretRef": "Secret", "configMapRef": "ConfigMap"}
"""Kind by its field name in `spec.parametersFrom`."""
MISSING: Final = "0"
"""The version of a source that does not exist, lower than any other version."""
TEMPLATE_NAMESPACE: Final = "templateNamespace"
"""The field with the namespace of the ConfigMaps. If the definition has an account, it is the account's namespace,
because anyone who can write ConfigMaps there controls what is written with the rights of the account."""


@value_class.dataclass(frozen=True, slots=True)
class SourceReader:
    """The reader of one Stack's sources."""

    management_cluster: ManagementSources
    boundary: Boundary | None = None
    """The boundary of the Stack; None for the operator's own account."""
    versions: dict[ObjectRef, str] = field(default_factory=dict)
    """The resource versions of the sources that were read; `MISSING` for those that do not exist."""
    take_turn: TakeTurn = field(default=contextlib.nullcontext, repr=False, compare=False)
    """Waits for a turn to parse the sources."""
    on_size: Callable[[int], None] = field(default=lambda _size: None, repr=False, compare=False)
    """Called with the number of characters before texts are parsed."""

    async def get_source(self, ref: ObjectRef, *, place: str, is_binary: bool = False) -> Mapping[str, str]:
        """Return the data of a source, or the binary data of a ConfigMap, in base64. place: where the definition names it.

        Raises SourceForbidden if the account is not allowed to read it, otherwise ApiStatusError or Unreachable.
        """
        get = self.management_cluster.get_binary_data if is_binary else self.management_cluster.get_source
        try:
            data = await get(ref, user=self._find_user(ref))
        except ApiStatusError as error:
            if error.is_not_found:
                self.versions[ref] = MISSING
            if not error.is_forbidden:
                raise
            raise SourceForbidden(f"{place}: {ref} {self._explain(ref)}") from error
        version = data.version if isinstance(data, well_known_kinds.SourceData) else ""
        # Several keys of one source may be read at different times. Record the first version: the data may be newer,
        # but not older.
        self.versions.setdefault(ref, version)
        return data

    def _find_user(self, ref: ObjectRef) -> str:
        """Return whom a source is read as; "" for the operator, which reads StackTemplates for every Stack."""
        return "" if self.boundary is None or well_known_kinds.is_shared_source(ref) else self.boundary.user

    def _explain(self, ref: ObjectRef) -> str:
        found = (
            "cannot be read"
            if well_known_kinds.is_shared_source(ref)
            else f"cannot be read in namespace {ref.namespace}"
        )
        if well_known_kinds.is_shared_source(ref) or self.boundary is None or not self.boundary.account:
            return f"{found}; allow the operator to get, list and watch it"
        account, kind = self.boundary.account, ref.kind.lower()
        grant = tenancy.write_grant(
            self.boundary.subject,
            "get",
            f"{kind}s",
            role=f"{account}-{ref.name}",
            namespace=ref.namespace,
            name=ref.name,
        )
        return f"{found} by ServiceAccount {account}; grant it: {grant}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSource:
    """One key of one ConfigMap, or one StackTemplate, that contains a template."""

    ref: ObjectRef
    key: str
    field: str
    """The field that names the source: `spec.templateRef` or `spec.templateRefs[0]`."""

    @property
    def path(self) -> str:
        """The location of its content, for messages."""
        return f"({self.ref} {self.key})"

    @property
    def is_compressed(self) -> bool:
        """Whether the value is in `binaryData`, compressed by gzip."""
        return self.key.endswith(COMPRESSED)


def find_template_sources(namespace: str, spec: Mapping[str, Any]) -> tuple[TemplateSource, ...]:
    """Return the sources of the template in a namespace, in order; none if the template is inline."""
    single, several = spec.get("templateRef"), spec.get("templateRefs")
    if isinstance(single, dict):
        return (_make_template_source(namespace, single, "spec.templateRef"),)
    entries = several if isinstance(several, list) else ()
    return tuple(
        _make_template_source(namespace, each, f"{UNITED_PATH}[{at}]")
        for at, each in enumerate(entries)
        if isinstance(each, dict)
    )


def _make_template_source(namespace: str, reference: Mapping[str, Any], field: str) -> TemplateSource:
    name = reference.get("name", "")
    if reference.get("kind") == well_known_kinds.STACK_TEMPLATE.name:
        return TemplateSource(
            ref=well_known_kinds.make_template_ref(name), key=well_known_kinds.TEMPLATE_KEY, field=field
        )
    ref = ObjectRef(group="", kind="ConfigMap", namespace=namespace, name=name)
    return TemplateSource(ref=ref, key=reference.get("key") or DEFAULT_KEY, field=field)


async def read_template(reader: SourceReader, namespace: str, spec: Mapping[str, Any]) -> tuple[Object, str]:
    """Return the template and its location.

    Raises SourceNotFound or InvalidDefinition, with all sources that are missing or invalid.
    """
    sources = find_template_sources(namespace, spec)
    if not sources:
        template: Object = spec.get("template") or {}
        return check_template(template, path=INLINE_PATH), INLINE_PATH
    texts = await _read_template_texts(reader, sources)
    size = limits.REVISION_BYTES if any(source.is_compressed for source in sources) else limits.SOURCE_BYTES
    reader.on_size(sum(map(len, texts)))
    templates = [
        await cooperative_work.finish(
            template_source.parse_in_pieces(text, place=source.path, size=size), take_turn=reader.take_turn
        )
        for source, text in zip(sources, texts, strict=True)
    ]
    if len(templates) == 1:
        return templates[0], sources[0].path
    return check_template(unite_templates(sources, templates), path=UNITED_PATH), UNITED_PATH


def check_template(template: Object, *, path: str) -> Object:
    """Return the template. Raises InvalidDefinition if it is too deep or too large."""
    excess = bounds.check(template, path=path)
    if excess:
        raise InvalidDefinition(excess)
    return template


async def _read_template_texts(reader: SourceReader, sources: Sequence[TemplateSource]) -> list[str]:
    """Return the texts of all sources. Raises SourceNotFound, otherwise InvalidDefinition.

    Compressed ones share the limit of one definition, because each inflates to a thousand times its size.
    """
    texts: list[str] = []
    left = limits.REVISION_BYTES
    missing: list[str] = []
    wrong: list[Mistake] = []
    is_forbidden = False
    for source in sources:
        try:
            text = await _read_template_text(reader, source, limit=left)
            texts.append(text)
            left -= len(text.encode()) if source.is_compressed else 0
        except SourceNotFound as error:
            is_forbidden |= isinstance(error, SourceForbidden)
            missing.append(str(error))
        except InvalidDefinition as error:
            wrong += error.mistakes
    if missing:
        raise (SourceForbidden if is_forbidden else SourceNotFound)("\n".join(missing))
    if wrong:
        raise InvalidDefinition(wrong)
    return texts


async def _read_template_text(reader: SourceReader, source: TemplateSource, *, limit: int) -> str:
    """Return the text of one source. limit: bytes of a compressed one. Raises SourceNotFound or InvalidDefinition."""
    try:
        data = await reader.get_source(source.ref, place=source.field, is_binary=source.is_compressed)
    except ApiStatusError as error:
        if not error.is_not_found:
            raise
        within = f" in namespace {source.ref.namespace}" if source.ref.namespace else ""
        where = f"does not exist{within}; create it"
        raise SourceNotFound(f"{source.field}: {source.ref} {where}") from error
    if source.key not in data:
        part = "binaryData" if source.is_compressed else "data"
        found = error_hints.list_words(sorted(data)) or "none"
        message = f"{source.ref} has no key {source.key!r} in {part}; existing keys: {found}"
        raise SourceNotFound(f"{source.field}.key: {message}")
    if not source.is_compressed:
        return data[source.key]
    return inflate(data[source.key], place=source.path, limit=limit)


def inflate(encoded: str, *, place: str, limit: int) -> str:
    """Decompress a value of `binaryData`. Raises InvalidDefinition if it is not gzip, or has more than `limit` bytes."""
    try:
        return packing.inflate(base64.b64decode(encoded, validate=True), limit=limit).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError, zlib.error) as error:
        all_together = " with all others" if limit < limits.REVISION_BYTES else ""
        message = (
            f"is not text compressed by gzip ({error}); create it with `gzip -9`, at most {limits.REVISION_BYTES} bytes"
            f"{all_together}"
        )
        raise InvalidDefinition([Mistake(path=place, message=message)]) from None


def unite_templates(sources: Sequence[TemplateSource], templates: Sequence[Object]) -> Object:
    """Merge templates into one. Raises InvalidDefinition for every name that is in two of them."""
    united: Object = {}
    origins: dict[tuple[str, str], TemplateSource] = {}
    wrong: list[Mistake] = []
    for source, template in zip(sources, templates, strict=True):
        for section, content in template.items():
            if section not in TEMPLATE_WORDS or not isinstance(content, dict):
                message = f"must be a mapping, found {type(content).__name__}"
                if section not in TEMPLATE_WORDS:
                    message = f"is not a section of a template; the sections are {', '.join(TEMPLATE_WORDS)}"
                wrong.append(Mistake(path=f"{source.path}.{section}", message=message))
                continue
            into = united.setdefault(section, {})
            for name, value in content.items():
                first = origins.setdefault((section, name), source)
                if first is not source:
                    message = f"is also in {first.field} {first.path}; remove or rename one of them"
                    wrong.append(Mistake(path=f"{source.path}.{section}.{name}", message=message))
                into[name] = value
    if wrong:
        raise InvalidDefinition(wrong)
    return united


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSource:
    """One entry of `spec.parametersFrom`."""

    ref: ObjectRef
    place: str
    """The field that names the source: `spec.parametersFrom[0]`, or `spec.password.secretKeyRef` of an instance."""
    is_optional: bool = False
    is_recorded: bool = False
    """Whether an earlier revision names the source. Users cannot change that reference."""
    key: str = ""
    """The only key to read; "" for all keys."""
    parameter: str = ""
    """The parameter of an instance that gets the value of `key`; "" for the source of a Stack."""

    def __str__(self) -> str:
        return f"{self.place} ({self.ref})"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceValue:
    """One key of a source."""

    text: str | None = field(repr=False)
    """None if the value is not text."""
    origin: Origin


def find_parameter_sources(namespace: str, spec: Mapping[str, Any]) -> tuple[ParameterSource, ...]:
    """Return the sources of parameters in order."""
    return tuple(
        ParameterSource(
            ref=ObjectRef(group="", kind=kind, namespace=namespace, name=entry[word].get("name", "")),
            place=_find_place(at, entry),
            is_optional=bool(entry[word].get("optional")),
            key=entry.get("key", ""),
            parameter=entry.get("parameter", ""),
        )
        for at, entry in enumerate(spec.get("parametersFrom") or ())
        for word, kind in PARAMETER_KINDS.items()
        if entry.get(word) is not None
    )


def _find_place(at: int, entry: Mapping[str, Any]) -> str:
    """Return the field that users write. A parameter with a Secret key of its own exists only in instances."""
    parameter = entry.get("parameter", "")
    return f"spec.{parameter}.{instance_fields.SECRET}" if parameter else f"spec.parametersFrom[{at}]"


async def read_parameters(
    reader: SourceReader, sources: Sequence[ParameterSource], *, wanted: Collection[str]
) -> dict[str, SourceValue]:
    """Read the values of the wanted parameters from all sources; the last source of a key wins.

    Raises SourceNotFound with the names of all missing sources, SourceForbidden if the account cannot read one.
    """
    found: dict[str, SourceValue] = {}
    missing: list[str] = []
    is_forbidden, size = False, 0
    for source in sources:
        try:
            data = await reader.get_source(source.ref, place=source.place)
        except SourceForbidden as error:
            is_forbidden = True
            missing.append(str(error))
            continue
        except ApiStatusError as error:
            # All other errors are retried.
            if not error.is_not_found:
                raise
            if not source.is_optional:
                other_way = "" if source.is_recorded or source.parameter else ", or set optional: true"
                missing.append(
                    f"{source.place}: {source.ref} does not exist in namespace {source.ref.namespace}; create it{other_way}"
                )
            continue
        size += sum(len(each or "") for each in data.values())
        found.update(parse_source(source, data, wanted=wanted))
    # Count unused keys too, because each Stack reads the whole source again.
    reader.on_size(size)
    if missing:
        raise (SourceForbidden if is_forbidden else SourceNotFound)("\n".join(missing))
    return found


def parse_source(
    source: ParameterSource, data: Mapping[str, str], *, wanted: Collection[str]
) -> dict[str, SourceValue]:
    """Return the wanted keys of one source, which may have a hundred thousand others."""
    ref = source.ref
    keys = [source.key] if source.key else [each for each in wanted if each in data]
    return {
        source.parameter or key: SourceValue(
            text=decode_text(data[key]) if ref.kind == "Secret" else data[key],
            origin=Origin(kind=ref.kind, name=ref.name, key=key, place=f"{source.place} ({ref} key {key})"),
        )
        for key in keys
        if key in data
    }


def decode_text(raw: str) -> str | None:
    """Decode a Secret's value. Returns None if it is not text."""
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
    """Parse the texts by name. Raises InvalidDefinition for values that exceed the limits."""
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


def require_parameters(definition: Definition, sources: Sequence[ParameterSource]) -> None:
    """Check that all parameters have a value. Raises SourceNotFound if a source could still supply a missing one."""
    listed = ", ".join(str(source.ref) for source in sources)
    own = {source.parameter: source for source in sources if source.parameter}
    given: Any = definition.parameters
    if not listed or not isinstance(given, dict):
        return
    stated = sensitivity.find_stated(definition.template)
    missing = [name for name, rules in stated.items() if name not in given and is_required(rules)]
    if missing:
        lines = [
            f"{own[name].place}: {own[name].ref} has no key {own[name].key}; add it to the Secret, or specify another key"
            if name in own
            else f"spec.parameters.{name}: is missing, and no source has the key {name}: {listed}; "
            f"add it to one of them, or set it here"
            for name in missing
        ]
        raise SourceNotFound("\n".join(lines))


def is_required(rules: Any) -> bool:
    """Return whether a parameter has no default."""
    return isinstance(rules, dict) and "default" not in rules


def find_certain(error: InvalidDefinition, definition: Definition, *, given: Collection[str] = ()) -> list[Mistake]:
    """Return the errors of a definition without values, except those that only report missing values.

    given: the parameters that have their values.
    """
    prefix = f"{definition.parameters_path}."
    return [
        each
        for each in error.mistakes
        if not each.path.startswith(prefix) or re.split(r"[.\[]", each.path.removeprefix(prefix))[0] in given
    ]


@value_class.dataclass(frozen=True, slots=True)
class ReadSpec:
    """The spec of a StackDefinition with its template."""

    spec: Object
    path: str = INLINE_PATH
    """Location of the template, for messages."""

    def relocate(self, mistakes: Iterable[Mistake]) -> Iterator[Mistake]:
        """Yield the errors with the location where they occur."""
        for each in mistakes:
            is_in_template = each.path == INLINE_PATH or each.path.startswith(f"{INLINE_PATH}.")
            yield Mistake(
                path=self.path + each.path.removeprefix(INLINE_PATH) if is_in_template else each.path,
                message=each.message,
            )


def find_definition_sources(spec: Mapping[str, Any]) -> Sequence[TemplateSource]:
    """Return the objects with the template, in order; none if it is in the spec."""
    return find_template_sources(find_template_namespace(spec), spec)


async def read_definition_spec(reader: SourceReader, spec: Object) -> ReadSpec:
    """Return the spec with the template as it is now. Raises InvalidDefinition, SourceNotFound, ApiStatusError, Unreachable."""
    template, path = await read_template(reader, find_template_namespace(spec), spec)
    return ReadSpec({**spec, "template": template}, path)


def find_template_namespace(spec: Mapping[str, Any]) -> str:
    """Return the namespace of the ConfigMaps, or "" if there are none. StackTemplates have no namespace."""
    return str(spec.get(TEMPLATE_NAMESPACE) or "")
