"""The revisions of all Stacks, by their metadata: the definitions in them are read when they are needed.

Must not know what a revision is for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from hearth.engine.ports import Revision
from hearth.kube.cache import child_cache, object_store
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.kube.well_known_kinds import CONTROLLER_REVISION
from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.sharding import WHOLE, Share

KINDS_KEPT = 256
"""Sets of kinds: Stacks of one template have the same."""
KINDS_LENGTH = 64 * limits.REVISION_KINDS
"""Characters of them that are read; of a longer text no signature can be valid."""
HASH_LENGTH = 128
"""Characters of a hash or signature that are read: three times as many as one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecord:
    """A revision and whose it is."""

    uid: str
    resource_version: int
    stack_uid: str
    revision: Revision


class RevisionCache:
    """The ControllerRevisions that carry a Stack's label. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: WatchConnection,
        *,
        namespace: str = "",
        share: Share = WHOLE,
        rules: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        self._stacks: dict[str, dict[str, Revision]] = {}
        self._store: ObjectStore[RevisionRecord] = object_store.ObjectStore(self)
        server = WatchContext(connection=connection, rules=rules or WatchOptions(), observer=observer)
        self._watch = Reflector(
            server,
            api_requests.collection_path(CONTROLLER_REVISION, namespace),
            self._store,
            name=CONTROLLER_REVISION.key,
            selector=api_requests.children_selector(share),
            metadata_only=True,
        )

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    async def close(self) -> None:
        """End."""
        await self._watch.close()

    async def wait_synced(self) -> None:
        """Until all revisions were listed once."""
        await self._watch.wait_synced()

    def health(self) -> list[WatchStatus]:
        """How the watch is doing."""
        return [child_cache.measure(CONTROLLER_REVISION.key, self._watch, objects=len(self._store.records))]

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """Of that Stack, by rising number."""
        return tuple(sorted(self._stacks.get(stack_uid, {}).values(), key=lambda revision: revision.number))

    def put(self, raw: Object) -> Revision:
        """Take in the answer to a write of our own."""
        return self._store.record_write(raw, passed=self._watch.version).revision

    def forget(self, stack_uid: str, name: str) -> None:
        """Our deletion of a Stack's revision is done."""
        for uid, revision in self._stacks.get(stack_uid, {}).items():
            if revision.name == name:
                self._store.forget(uid)
                return

    def parse(self, raw: Object) -> RevisionRecord:
        """What is kept of a revision."""
        metadata = raw["metadata"]
        return RevisionRecord(
            uid=metadata["uid"],
            resource_version=int(metadata["resourceVersion"]),
            stack_uid=(metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""),
            revision=parse_revision(metadata),
        )

    def replace(
        self,
        old: RevisionRecord | None,
        new: RevisionRecord | None,
        *,
        is_ours: bool,  # noqa: ARG002 -- nobody listens, so nobody needs to be told
    ) -> None:
        """A revision came, changed or went."""
        if old is not None:
            revisions = self._stacks[old.stack_uid]
            del revisions[old.uid]
            if not revisions:
                del self._stacks[old.stack_uid]
        if new is not None:
            self._stacks.setdefault(new.stack_uid, {})[new.uid] = new.revision

    def complete(self) -> None:
        """A fresh list is there; `wait_synced` tells whoever waits."""


def parse_revision(metadata: Object) -> Revision:
    """What the metadata of a ControllerRevision say, whoever wrote them: never trusted before they are verified."""
    annotations = metadata.get("annotations") or {}
    number = annotations.get(names.ANNOTATION_REVISION, "")
    owners = (each for each in metadata.get("ownerReferences") or () if is_stack(each))
    return Revision(
        name=metadata["name"],
        number=int(number) if number.isascii() and number.isdigit() and len(number) <= limits.COUNT_DIGITS else 0,
        hash=annotations.get(names.ANNOTATION_HASH, "")[:HASH_LENGTH],
        kinds=parse_kinds(annotations.get(names.ANNOTATION_KINDS, "")[:KINDS_LENGTH]),
        namespace=metadata.get("namespace", ""),
        owner=next((str(each.get("uid", "")) for each in owners), ""),
        signature=annotations.get(names.ANNOTATION_SIGNATURE, "")[:HASH_LENGTH],
    )


def is_stack(reference: Object) -> bool:
    """Whether an owner reference names a Stack that controls the object."""
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    return (group, reference.get("kind"), reference.get("controller")) == (names.GROUP, names.STACK, True)


@functools.lru_cache(maxsize=KINDS_KEPT)
def parse_kinds(text: str) -> frozenset[str]:
    """The kinds that a revision says were applied; one set in memory for all that say the same."""
    return frozenset(text.split(",")) if text else frozenset()
