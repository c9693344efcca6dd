"""Reads kubeconfig files, merges them like kubectl, and finds the entries of one context. Blocks."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from hearth.model import value_class

Documents: TypeAlias = Sequence[tuple[Path, Mapping[str, Any]]]
"""The folder and the content of each file."""


SHAPE = "not a valid kubeconfig; clusters, contexts and users must be lists of maps with a name"


class InvalidKubeconfig(ValueError):
    """Error for an invalid kubeconfig. The message is for its author."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigEntry:
    """A cluster, user or context."""

    content: Mapping[str, Any]
    folder: Path
    """The folder of its file, to which paths in the entry are relative."""

    def find_file(self, key: str) -> Path | None:
        """Return the file that `key` specifies, or None if the data itself is present, or neither."""
        name = self.content.get(key)
        return self.folder / name if name and not self.content.get(f"{key}-data") else None

    def read(self, key: str) -> bytes | None:
        """Return the base64 data of `<key>-data`, otherwise the content of the file in `key`, or None if neither is
        present.
        """
        data = self.content.get(f"{key}-data")
        if data:
            return base64.b64decode(data)
        file = self.find_file(key)
        return file.read_bytes() if file is not None else None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigContext:
    """The entries of a context."""

    name: str
    cluster: KubeconfigEntry
    user: KubeconfigEntry
    """An empty entry if the context has no user, as behind an authenticating proxy."""
    namespace: str = ""
    """The namespace for commands that do not specify one, or "" if the context has none."""


def find_context(paths: Sequence[str], name: str | None) -> KubeconfigContext:
    """Return the context of this name; None: the current one. The first of several files with an entry counts.

    Raises InvalidKubeconfig or OSError.
    """
    try:
        return search_context(paths, name)
    except InvalidKubeconfig:
        raise
    # RecursionError: lists that are nested too deeply. The others: a value that is not the expected map, list or date.
    except (AttributeError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        # Do not repeat the content in the message, because it may be a token.
        raise InvalidKubeconfig(f"{', '.join(paths)}{find_line(error)}: {SHAPE}") from error


def find_line(error: Exception) -> str:
    """Return the approximate line of an error in a file, "" if unknown."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f" near line {mark.line + 1}" if mark is not None else ""


def search_context(paths: Sequence[str], name: str | None) -> KubeconfigContext:
    """Find the context in files with the expected structure."""
    documents = [(Path(path).parent, read_file(Path(path))) for path in paths]
    wanted = name or next(filter(None, (content.get("current-context") for _, content in documents)), None)
    if wanted is None:
        raise InvalidKubeconfig("it has no current context; set --context")
    context = find_entry(documents, "context", wanted)
    if context is None:
        raise InvalidKubeconfig(
            f"there is no context {wanted!r}; existing contexts: {list_names(documents, 'context')}"
        )
    cluster = find_entry(documents, "cluster", context.content.get("cluster"))
    if cluster is None or not cluster.content.get("server"):
        raise InvalidKubeconfig(
            f"the cluster {context.content.get('cluster')!r} of the context {wanted!r} has no server"
        )
    user = find_entry(documents, "user", context.content.get("user"))
    namespace = context.content.get("namespace")
    return KubeconfigContext(
        name=wanted,
        cluster=cluster,
        user=user or KubeconfigEntry(content={}, folder=context.folder),
        namespace=namespace if isinstance(namespace, str) else "",
    )


def read_file(file: Path) -> Mapping[str, Any]:
    """Return the content of one file."""
    content = yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
    if not isinstance(content, dict):
        raise InvalidKubeconfig(f"{file} is not a kubeconfig: it must be a map")
    return content


def find_entry(documents: Documents, sort: str, name: str | None) -> KubeconfigEntry | None:
    """Return the first entry of a sort (`cluster`, `context`, `user`) with this name."""
    for folder, each in list_entries(documents, sort):
        if each.get("name") == name:
            return KubeconfigEntry(content=each.get(sort) or {}, folder=folder)
    return None


def list_entries(documents: Documents, sort: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield all entries of a sort, each with the folder of its file."""
    for folder, content in documents:
        for each in content.get(f"{sort}s") or ():
            yield folder, each


def list_names(documents: Documents, sort: str) -> str:
    """Return the names of all entries for a message."""
    return ", ".join(repr(each.get("name")) for _, each in list_entries(documents, sort)) or "none"
