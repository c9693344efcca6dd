"""The template of a StackDefinition: in its spec, or in objects that this names, which the operator reads as itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.engine.definition.sources import template_sources
from hearth.engine.definition.sources.source_reader import SourceReader
from hearth.engine.definition.sources.template_sources import INLINE_PATH, TemplateSource
from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.errors import Mistake

NAMESPACE: Final = "templateNamespace"
"""The field with the namespace of the ConfigMaps. Where the definition has an account, it is that of the account: who may
write ConfigMaps there decides what is written with its rights."""


@value_class.dataclass(frozen=True, slots=True)
class ReadSpec:
    """The spec of a StackDefinition with its template."""

    spec: Object
    path: str = INLINE_PATH
    """Where the template is, for messages."""

    def relocate(self, mistakes: Iterable[Mistake]) -> Iterator[Mistake]:
        """Yield the mistakes with the place of what they are in."""
        for each in mistakes:
            is_in_template = each.path == INLINE_PATH or each.path.startswith(f"{INLINE_PATH}.")
            yield Mistake(
                path=self.path + each.path.removeprefix(INLINE_PATH) if is_in_template else each.path,
                message=each.message,
            )


def find_sources(spec: Mapping[str, Any]) -> Sequence[TemplateSource]:
    """Return the objects with the template, in order; none if it is in the spec."""
    return template_sources.find_references(find_namespace(spec), spec)


async def read(reader: SourceReader, spec: Object) -> ReadSpec:
    """Return the spec with the template as it is now. Raises InvalidDefinition, SourceNotFound, ApiStatusError, Unreachable."""
    template, path = await template_sources.read(reader, find_namespace(spec), spec)
    return ReadSpec({**spec, "template": template}, path)


def find_namespace(spec: Mapping[str, Any]) -> str:
    """Return the namespace of the ConfigMaps; "" if none is named, as StackTemplates have none."""
    return str(spec.get(NAMESPACE) or "")
