"""Read the template of a spec: inline, from a ConfigMap or StackTemplate, or united from several, plain or compressed.

Reports missing objects and invalid content with their location. Must not know what a template means.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from hearth.engine import cooperative_work
from hearth.engine.definition.sources.source_reader import SourceReader
from hearth.model import limits, packing, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, InvalidDefinition, Mistake, SourceForbidden, SourceNotFound
from hearth.model.kinds import ObjectRef
from hearth.template.text import bounds, error_hints, template_source

DEFAULT_KEY = "template.yaml"
COMPRESSED = ".gz"
"""Suffix of a key whose value in `binaryData` is compressed."""
INLINE_PATH = "spec.template"
UNITED_PATH = "spec.templateRefs"
"""The location of a template that several objects contain."""
SECTIONS = ("parameters", "conditions", "resources", "outputs")
"""The maps of a template, which are united name by name."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSource:
    """One key of one ConfigMap, or one StackTemplate, that contains a template."""

    ref: ObjectRef
    key: str
    field: str
    """`spec.templateRef` or `spec.templateRefs[0]`."""

    @property
    def path(self) -> str:
        """The location of its content, for messages."""
        return f"({self.ref} {self.key})"

    @property
    def is_compressed(self) -> bool:
        """Whether the value is in `binaryData`, compressed by gzip."""
        return self.key.endswith(COMPRESSED)


def find_references(namespace: str, spec: Mapping[str, Any]) -> tuple[TemplateSource, ...]:
    """Return the sources of the template in a namespace, in order; none if the template is inline."""
    single, several = spec.get("templateRef"), spec.get("templateRefs")
    if isinstance(single, dict):
        return (_make_source(namespace, single, "spec.templateRef"),)
    entries = several if isinstance(several, list) else ()
    return tuple(
        _make_source(namespace, each, f"{UNITED_PATH}[{at}]")
        for at, each in enumerate(entries)
        if isinstance(each, dict)
    )


def _make_source(namespace: str, reference: Mapping[str, Any], field: str) -> TemplateSource:
    name = reference.get("name", "")
    if reference.get("kind") == well_known_kinds.STACK_TEMPLATE.name:
        return TemplateSource(
            ref=well_known_kinds.make_template_ref(name), key=well_known_kinds.TEMPLATE_KEY, field=field
        )
    ref = ObjectRef(group="", kind="ConfigMap", namespace=namespace, name=name)
    return TemplateSource(ref=ref, key=reference.get("key") or DEFAULT_KEY, field=field)


async def read(reader: SourceReader, namespace: str, spec: Mapping[str, Any]) -> tuple[Object, str]:
    """Return the template and its location.

    Raises SourceNotFound or InvalidDefinition, with all sources that are missing or invalid.
    """
    sources = find_references(namespace, spec)
    if not sources:
        template: Object = spec.get("template") or {}
        return check(template, path=INLINE_PATH), INLINE_PATH
    texts = await _read_all(reader, sources)
    size = limits.REVISION_BYTES if any(source.is_compressed for source in sources) else limits.SOURCE_BYTES
    templates = [
        await cooperative_work.share(template_source.parse_in_pieces(text, place=source.path, size=size))
        for source, text in zip(sources, texts, strict=True)
    ]
    if len(templates) == 1:
        return templates[0], sources[0].path
    return check(unite(sources, templates), path=UNITED_PATH), UNITED_PATH


def check(template: Object, *, path: str) -> Object:
    """Return the template if it is within the limits. Raises InvalidDefinition if it is too deep or too large."""
    excess = bounds.check(template, path=path)
    if excess:
        raise InvalidDefinition(excess)
    return template


async def _read_all(reader: SourceReader, sources: Sequence[TemplateSource]) -> list[str]:
    """Return the texts of all sources. Raises SourceNotFound, else InvalidDefinition.

    Compressed ones have the limit of one definition together, because each inflates to a thousand times its size.
    """
    texts: list[str] = []
    left = limits.REVISION_BYTES
    missing: list[str] = []
    wrong: list[Mistake] = []
    is_forbidden = False
    for source in sources:
        try:
            text = await _read_text(reader, source, limit=left)
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


async def _read_text(reader: SourceReader, source: TemplateSource, *, limit: int) -> str:
    """Return the text of one source. limit: bytes of a compressed one. Raises SourceNotFound or InvalidDefinition."""
    try:
        data = await (
            reader.get_binary_data(source.ref, place=source.field)
            if source.is_compressed
            else reader.get_source(source.ref, place=source.field)
        )
    except ApiStatusError as error:
        if not error.is_not_found:
            raise
        within = f" in namespace {source.ref.namespace}" if source.ref.namespace else ""
        where = f"does not exist{within}; create it"
        raise SourceNotFound(f"{source.field}: {source.ref} {where}") from error
    if source.key not in data:
        part = "binaryData" if source.is_compressed else "data"
        found = error_hints.list_words(sorted(data)) or "none"
        message = f"{source.ref} has no key {source.key!r} in {part}; its keys there: {found}"
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
            f"is not text compressed by gzip ({error}); make it with `gzip -9`, at most {limits.REVISION_BYTES} bytes"
            f"{all_together}"
        )
        raise InvalidDefinition([Mistake(path=place, message=message)]) from None


def unite(sources: Sequence[TemplateSource], templates: Sequence[Object]) -> Object:
    """Return one template with the names of all. Raises InvalidDefinition for every name that is in two of them."""
    united: Object = {}
    origins: dict[tuple[str, str], TemplateSource] = {}
    wrong: list[Mistake] = []
    for source, template in zip(sources, templates, strict=True):
        for section, content in template.items():
            if section not in SECTIONS or not isinstance(content, dict):
                message = f"must be a mapping, found {type(content).__name__}"
                if section not in SECTIONS:
                    message = f"is not a part of a template; the parts are {', '.join(SECTIONS)}"
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
