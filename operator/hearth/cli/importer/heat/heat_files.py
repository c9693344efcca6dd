"""Reads the files of a Heat stack: templates, environments and the files that they reference.

Only files within the allowed directories are read, and nothing from a network.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from hearth.cli.importer.heat.heat_values import Lost
from hearth.cli.importer.manifest_documents import SourceText
from hearth.model import limits, object_fields
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.text import error_hints, kubectl_yaml

READ_BYTES: Final = 32 * limits.SOURCE_BYTES
"""Size of all files together. A file counts each time it is read."""
MAPPINGS: Final = 10
"""Length of a chain of type mappings in the environment."""
TEMPLATE_SUFFIXES: Final = (".yaml", ".yml", ".template", ".json")
SECTIONS: Final = ("parameters", "resources", "outputs", "conditions")
ENVIRONMENT_SECTIONS: Final = (
    *("parameters", "parameter_defaults", "resource_registry", "parameter_merge_strategies"),
    *("encrypted_param_names", "event_sinks"),
)


class HeatFolders:
    """The directories that templates and `get_file` may read."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._left = READ_BYTES

    def find_file(self, name: str, beside: Path | None) -> Path:
        """Return the file with that name next to another one, or in one of the directories. Raises Lost."""
        name = name.removeprefix("file://")
        if "://" in name:
            raise Lost(f"{error_hints.shorten(name)} is a URL; download the file, and refer to the copy")
        places = [*([beside] if beside is not None else []), *self._folders]
        try:
            found = [path for place in places if (path := (place / name).resolve()).is_file()]
        except (OSError, ValueError, RuntimeError) as error:
            raise Lost(f"{error_hints.shorten(name)} cannot be read") from error
        inside = [path for path in found if any(path.is_relative_to(folder) for folder in self._folders)]
        if inside:
            return inside[0]
        if found or ".." in name or name.startswith("/"):
            raise Lost(f"{error_hints.shorten(name)} is outside the directory of the template; pass --registry-dir")
        raise Lost(f"{error_hints.shorten(name)} does not exist in the directory of the template; pass --registry-dir")

    def read_text(self, path: Path) -> str:
        """Return the text of a file that `find_file` found. Raises Lost."""
        name = error_hints.shorten(path.name)
        try:
            size = path.stat().st_size
            self._left -= size
            if size > limits.SOURCE_BYTES or self._left < 0:
                raise Lost(f"{name} is too large")
            return path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise Lost(f"{name} is not readable text") from error


def parse_document(text: SourceText) -> Mapping[str, Any]:
    """Return the only document of a text. Raises InvalidDefinition."""
    try:
        documents = [each.value for each in kubectl_yaml.parse_documents(text.content)]
    except yaml.YAMLError as error:
        message = f"is not valid YAML: {kubectl_yaml.describe(error)}"
        raise InvalidDefinition([Mistake(path=text.source, message=message)]) from error
    if len(documents) == 1 and isinstance(documents[0], dict):
        return documents[0]
    found = error_hints.describe(documents[0]) if len(documents) == 1 else f"{len(documents)} documents"
    raise InvalidDefinition([Mistake(path=text.source, message=f"must be a single map, found {found}")])


def parse_template(text: SourceText) -> Mapping[str, Any]:
    """Return a HOT document whose sections are maps, and whose resources have a type. Raises InvalidDefinition."""
    document = parse_document(text)
    mistakes = list(find_wrong_sections(document, text.source))
    if "heat_template_version" not in document:
        kind = "a CloudFormation template" if "AWSTemplateFormatVersion" in document else "not a Heat template"
        message = f"is {kind}: heat_template_version is missing"
        mistakes = [Mistake(path=text.source, message=message)]
    if mistakes:
        raise InvalidDefinition(mistakes)
    return document


def find_wrong_sections(document: Mapping[str, Any], source: str) -> Iterator[Mistake]:
    """Yield a mistake for each section, and each entry of one, that is not a map."""
    for section in SECTIONS:
        entries = document.get(section)
        if entries is not None and not isinstance(entries, dict):
            yield Mistake(path=source, message=f"{section} must be a map, found {error_hints.describe(entries)}")
        elif section != "conditions":
            for name, entry in (entries or {}).items():
                called = f"{section}.{error_hints.shorten(name)}"
                if not isinstance(entry, dict):
                    yield Mistake(path=source, message=f"{called} must be a map, found {error_hints.describe(entry)}")
                elif section == "resources" and not isinstance(entry.get("type"), str):
                    yield Mistake(
                        path=source,
                        message=f"{called}.type must be text, found {error_hints.describe(entry.get('type'))}",
                    )


# Environments.


@dataclass(slots=True)
class HeatEnvironment:
    """All environments, merged in their order."""

    parameters: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    """parameter_defaults, which also apply to nested templates."""
    registry: dict[str, tuple[str, Path | None]] = field(default_factory=dict)
    """The implementation of each type, and the directory of its environment."""
    resources: dict[str, Any] = field(default_factory=dict)
    """Rules of single resources: hooks, restricted actions, types."""
    folders: list[Path | None] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Settings without an equivalent, a sentence each."""

    def merge(self, text: SourceText, folder: Path | None) -> None:
        """Add one environment. folder: its directory. Raises InvalidDefinition."""
        document = parse_document(text)
        strategies = object_fields.mapping(document, "parameter_merge_strategies")
        for section, target in (("parameters", self.parameters), ("parameter_defaults", self.defaults)):
            for name, value in self._read_section(document, section, text.source).items():
                target[name] = merge_values(
                    target.get(name), value, str(strategies.get(name, strategies.get("default")))
                )
        for name, value in self._read_section(document, "resource_registry", text.source).items():
            if name == "resources" and isinstance(value, dict):
                self.resources = merge_values(self.resources, value, "deep_merge")
            elif name == "base_url" or not isinstance(value, str):
                self.lost.append(f"{text.source}: resource_registry.{error_hints.shorten(name)} has no equivalent")
            else:
                self.registry[name] = (value, folder)
        unknown = [name for name in document if name not in ENVIRONMENT_SECTIONS or name == "event_sinks"]
        self.lost += [f"{text.source}: {error_hints.shorten(name)} has no equivalent" for name in unknown]

    @staticmethod
    def _read_section(document: Mapping[str, Any], section: str, source: str) -> Mapping[str, Any]:
        value = document.get(section)
        if value is not None and not isinstance(value, dict):
            message = f"{section} must be a map, found {error_hints.describe(value)}"
            raise InvalidDefinition([Mistake(path=source, message=message)])
        return value or {}

    def find_type(self, name: str, path: Sequence[str]) -> tuple[str, Path | None]:
        """Return the implementation of a type, and the directory of its file. path: the path of the resource.

        Raises Lost.
        """
        folder: Path | None = None
        own = object_fields.mapping(self.resources, *path)
        for _ in range(MAPPINGS):
            found = (
                (own[name], None) if isinstance(own.get(name), str) and name != "hooks" else self._find_mapping(name)
            )
            if found is None or found[0] == name:
                return name, folder
            name, folder = found
        raise Lost("the environment maps the type in a cycle")

    def _find_mapping(self, name: str) -> tuple[str, Path | None] | None:
        if name in self.registry:
            return self.registry[name]
        for pattern in sorted(self.registry, key=len, reverse=True):
            if pattern.endswith("*") and name.startswith(pattern[:-1]):
                target, folder = self.registry[pattern]
                return (
                    target.removesuffix("*") + name.removeprefix(pattern[:-1]) if target.endswith("*") else target,
                    folder,
                )
        return None

    def list_rules(self, names: Sequence[str], path: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the rules for each resource of a template, including rules with wildcards. path: the path of the
        template.
        """
        rules = object_fields.mapping(self.resources, *path) if path else self.resources
        for pattern, rule in rules.items():
            if isinstance(rule, dict):
                yield from ((name, rule) for name in names if fnmatch.fnmatchcase(name, pattern))


def merge_values(former: Any, value: Any, strategy: str) -> Any:
    """Return the value of a later environment merged with earlier ones, by a strategy of Heat."""
    if strategy not in ("merge", "deep_merge") or former is None:
        return value
    if isinstance(former, dict) and isinstance(value, dict):
        inner = strategy if strategy == "deep_merge" else "overwrite"
        return {**former, **{key: merge_values(former.get(key), each, inner) for key, each in value.items()}}
    if isinstance(former, list) and isinstance(value, list):
        return [*former, *value]
    return value


def is_template(name: str) -> bool:
    """Return whether a type is the name of a file."""
    return name.endswith(TEMPLATE_SUFFIXES)
