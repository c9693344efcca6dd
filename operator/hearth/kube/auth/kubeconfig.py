"""What a kubeconfig says: its files read and merged as kubectl does, and the entries that one context leads to.

Reading is blocking. Must not know how an entry proves who we are: `hearth.kube.auth.credentials` does.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Documents: TypeAlias = Sequence[tuple[Path, Mapping[str, Any]]]
"""The folder of each file, and what it says."""


SHAPE = "no YAML of the shape of a kubeconfig; clusters, contexts and users are lists of maps with a name each"


class InvalidKubeconfig(ValueError):
    """A kubeconfig cannot be used; a sentence for whoever wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigEntry:
    """A cluster, user or context."""

    content: Mapping[str, Any]
    folder: Path
    """Of the file that it stands in: what it names is relative to it."""

    def find_file(self, key: str) -> Path | None:
        """The file that `key` names; None where the data itself is given, or neither."""
        name = self.content.get(key)
        return self.folder / name if name and not self.content.get(f"{key}-data") else None

    def read(self, key: str) -> bytes | None:
        """What stands under `<key>-data` in base 64, else in the file that `key` names; None where neither is given."""
        data = self.content.get(f"{key}-data")
        if data:
            return base64.b64decode(data)
        file = self.find_file(key)
        return file.read_bytes() if file is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigContext:
    """What a context leads to."""

    name: str
    cluster: KubeconfigEntry
    user: KubeconfigEntry
    """An empty one where nobody is named, as behind a proxy that knows who asks."""


def find_context(paths: Sequence[str], name: str | None) -> KubeconfigContext:
    """The context of that name; None: the current one. Of several files the first that has something counts.

    Raises Unusable or OSError.
    """
    try:
        return search_context(paths, name)
    except InvalidKubeconfig:
        raise
    # RecursionError: lists in lists; the others: whatever is no map, no list or no date where one is expected.
    except (AttributeError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        # What stands there is not repeated: it may be a token.
        raise InvalidKubeconfig(f"{', '.join(paths)}{find_line(error)}: {SHAPE}") from error


def find_line(error: Exception) -> str:
    """Near which line of a file an error was found, "" where it does not tell."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f" near line {mark.line + 1}" if mark is not None else ""


def search_context(paths: Sequence[str], name: str | None) -> KubeconfigContext:
    """The same, where all has the shape that it is to have."""
    documents = [(Path(path).parent, read_file(Path(path))) for path in paths]
    wanted = name or next(filter(None, (content.get("current-context") for _, content in documents)), None)
    if wanted is None:
        raise InvalidKubeconfig("it names no current context; state --context")
    context = find_entry(documents, "context", wanted)
    if context is None:
        raise InvalidKubeconfig(f"there is no context {wanted!r}; there are {list_names(documents, 'context')}")
    cluster = find_entry(documents, "cluster", context.content.get("cluster"))
    if cluster is None or not cluster.content.get("server"):
        raise InvalidKubeconfig(
            f"the cluster {context.content.get('cluster')!r} of the context {wanted!r} states no server"
        )
    user = find_entry(documents, "user", context.content.get("user"))
    return KubeconfigContext(
        name=wanted, cluster=cluster, user=user or KubeconfigEntry(content={}, folder=context.folder)
    )


def read_file(file: Path) -> Mapping[str, Any]:
    """What one file says."""
    content = yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
    if not isinstance(content, dict):
        raise InvalidKubeconfig(f"{file} holds no mapping, as a kubeconfig does")
    return content


def find_entry(documents: Documents, sort: str, name: str | None) -> KubeconfigEntry | None:
    """The first entry of a sort (`cluster`, `context`, `user`) of that name."""
    for folder, each in list_entries(documents, sort):
        if each.get("name") == name:
            return KubeconfigEntry(content=each.get(sort) or {}, folder=folder)
    return None


def list_entries(documents: Documents, sort: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """All entries of a sort, each with the folder of its file."""
    for folder, content in documents:
        for each in content.get(f"{sort}s") or ():
            yield folder, each


def list_names(documents: Documents, sort: str) -> str:
    """For people."""
    return ", ".join(repr(each.get("name")) for _, each in list_entries(documents, sort)) or "none"
