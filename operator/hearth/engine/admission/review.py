"""Input and result of an admission review."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from hearth.engine import cluster_objects
from hearth.engine.cluster_objects import StackObject
from hearth.model import child, limits, names, value_class
from hearth.model.child import Object
from hearth.template import resource_group


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The user who sends the write, as the API server authenticated it."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The user as a flag of kubectl."""
        return f"--user={shlex.quote(self.name)}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One write of an object that the API server asks about."""

    new: Object = field(repr=False)
    """The object as it would be stored."""
    old: Object | None = field(default=None, repr=False)
    """The stored object; None for a creation."""
    author: Author = Author()
    is_dry_run: bool = False

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return str((self.new.get("metadata") or {}).get("namespace") or "")

    @property
    def name(self) -> str:
        """The name of the object, or "" if the API server generates it later."""
        return str((self.new.get("metadata") or {}).get("name") or "")

    @property
    def spec(self) -> Object:
        """The spec as it would be stored; a group's spec is in the form of a Stack's."""
        return read_spec(self.new)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """The answer: the write is allowed if `denial` is empty."""

    denial: str = ""
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Annotations to set in the object before it is stored; None removes one."""

    def combine(self, other: ReviewResult) -> ReviewResult:
        """Return the result of both reviews of one write."""
        denials = [each.denial for each in (self, other) if each.denial]
        return ReviewResult(
            denial="\n".join(denials),
            warnings=(*self.warnings, *other.warnings),
            annotations={**self.annotations, **other.annotations},
        )


ALLOWED = ReviewResult()


def make_stack(raw: Object, *, namespace: str) -> StackObject:
    """Return a Stack as its definition is read and compiled, without its status."""
    metadata, spec = raw.get("metadata") or {}, read_spec(raw)
    account = spec.get("serviceAccountName")
    return StackObject(
        name=str(metadata.get("name") or ""),
        namespace=namespace,
        uid=str(metadata.get("uid") or f"{namespace}/{metadata.get('name')}"),
        generation=0,
        resource_version=0,
        deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=(),
        annotations={},
        kind=str(raw.get("kind") or names.STACK),
        service_account=account if isinstance(account, str) else "",
        kubeconfig=cluster_objects.find_kubeconfig(spec),
        is_size_scaled=child.is_scaled(metadata.get("managedFields") or ()),
        packed_spec=orjson.dumps({key: spec.get(key) for key in ("adoptionPolicy", "timeout")}),
        packed_status=b"{}",
    )


def read_spec(raw: Object | None) -> Object:
    """Return the spec of an object, a group's in the form of a Stack's, or empty if it has none."""
    spec: Any = (raw or {}).get("spec")
    if not isinstance(spec, dict):
        return {}
    return resource_group.make_spec(spec) if (raw or {}).get("kind") == names.GROUP_KIND else spec


def to_warnings(text: str) -> tuple[str, ...]:
    """Split a message into warnings, one per line, within the limits of the API server."""
    lines = [line.removeprefix("- ") for line in text.splitlines() if line.strip()]
    shown = [shorten(line) for line in lines[: limits.ADMISSION_WARNINGS]]
    rest = len(lines) - len(shown)
    return (*shown, *([f"and {rest} more"] if rest > 0 else []))


def shorten(line: str) -> str:
    """Cut a warning to the length that the API server passes on."""
    return line if len(line) <= limits.ADMISSION_WARNING_LENGTH else line[: limits.ADMISSION_WARNING_LENGTH - 1] + "…"
