"""Reads a Stack with its template, children and nested Stacks, also in other clusters, with the user's permissions."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import dataclasses
import itertools
import urllib.parse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from hearth.cli.stack_access import revisions, stack_locations
from hearth.cli.stack_access.read_budgets import ForeignBudget
from hearth.cli.stack_access.revisions import StoredRevisions
from hearth.cli.stack_access.session import Session, refuse_connection
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.engine import cluster_objects
from hearth.model import errors, limits, members, names, object_fields
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CONTROLLER_REVISION, RESOURCE_GROUP, SECRET, STACK

if TYPE_CHECKING:
    from hearth.kube.remote.remote_cluster import RemoteConnection

UNAUTHORIZED: Final = 401
NESTED_AT_MOST: Final = 200
"""Nested Stacks in one snapshot: each costs some requests."""
HIDDEN: Final = "its objects are in another cluster (spec.kubeConfig)"


@dataclass(slots=True)
class StackReader:
    """Reads Stacks; definitions that cannot change are read once."""

    session: Session
    with_groups: bool = False
    """Whether the members of ResourceGroups within Stacks are read too."""
    others: OtherClusters = field(init=False)
    """The other clusters with objects of Stacks."""
    _templates: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By UID of a ControllerRevision."""
    _is_limited: bool = False
    """Whether the user may list objects of single namespaces only."""

    def __post_init__(self) -> None:
        """Open nothing yet."""
        self.others = OtherClusters(self.session)

    async def read(self, location: StackLocation) -> StackObjects | None:
        """Return the Stack at a location, with its revisions and objects, or None if it does not exist.

        Raises ApiStatusError.
        """
        raw = await self.session.find(location.kind, location.namespace, location.name)
        if raw is None:
            return None
        self.others.budget.reset()
        stack = location.parse(raw)
        return await self.complete(stack, outermost_stack=await self.find_outermost(stack))

    async def get(self, location: StackLocation) -> StackObjects:
        """Return the Stack like `read`. Raises ApiStatusError, also if the Stack does not exist."""
        found = await self.read(location)
        if found is None:
            raise stack_locations.make_absence(location)
        return found

    async def find_outermost(self, stack: StackState) -> StackState | None:
        """Return the outermost Stack that contains this one, or this one itself; None if it cannot be read."""
        for _ in range(limits.NESTED_DEPTH):
            if not stack.parent:
                return stack
            name = object_fields.text(stack.raw, "metadata", "labels", names.LABEL_STACK)
            namespace = stack.parent_namespace or stack.namespace
            raw = None
            for kind in (STACK, RESOURCE_GROUP):
                with contextlib.suppress(errors.ApiStatusError):
                    raw = raw or await self.session.find(kind, namespace, name)
            if raw is None or raw["metadata"]["uid"] != stack.parent:
                return None
            stack = StackState(raw)
        return None

    async def complete(
        self,
        stack: StackState,
        *,
        depth: int = 0,
        outermost_stack: StackState | None = None,
        numbers: Iterator[int] | None = None,
    ) -> StackObjects:
        """Return the Stack with its revisions and objects. outermost_stack: see `StackObjects`; numbers: of the nested
        Stacks.
        """
        numbers = numbers or itertools.count(1)
        stored = await revisions.list_revisions(self.session, stack)
        template = await self.find_template(stack, stored)
        unreadable: dict[str, str] = {}
        if not stored.is_readable and not object_fields.mapping(template, "resources"):
            unreadable[CONTROLLER_REVISION.key] = explain_unknown(stack)
        children: list[FoundChild] = []
        try:
            session, namespace = await self._find_session(stack)
            kinds = await self.find_kinds(session, stored, template)
            reads = (self.list_children(session, kind, stack, unreadable, only=namespace) for kind in kinds)
            children = [child for found in await asyncio.gather(*reads) for child in found]
            if not stack.is_ready:
                children = await self.add_schemas(session, children)
        except ClusterHidden as hidden:
            unreadable[""] = str(hidden)
        except errors.Unreachable as error:
            if not is_remote(stack):
                raise
            unreadable[""] = f"{HIDDEN}, and does not answer: {error}"
        nested = {}
        if depth < limits.NESTED_DEPTH:
            for child in children:
                is_nested = child.is_stack or (child.is_group and self.with_groups)
                if is_nested and next(numbers) < NESTED_AT_MOST:
                    nested[child.uid] = await self.complete(
                        StackState(child.raw), depth=depth + 1, outermost_stack=outermost_stack, numbers=numbers
                    )
        return StackObjects(
            stack=stack,
            template=template,
            children=children,
            nested=nested,
            outermost_stack=outermost_stack,
            unreadable=unreadable,
        )

    async def _find_session(self, stack: StackState) -> tuple[Session, str]:
        """Return the session with the cluster of the objects, and the only namespace that it may read ("" for all).

        Raises ClusterHidden.
        """
        if not is_remote(stack):
            return self.session, ""
        other = await self.others.find(stack)
        return other.session, other.namespace

    async def find_session(self, objects: StackObjects) -> Session:
        """Return the session that read the objects of a Stack; it also reads the evidence about them."""
        return self.session if "" in objects.unreadable else (await self._find_session(objects.stack))[0]

    async def __aenter__(self) -> Self:
        """Open nothing yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the sessions with other clusters."""
        await self.others.close()

    async def find_template(self, stack: StackState, stored: StoredRevisions) -> Mapping[str, Any]:
        """Return the template of the active revision, or the template in the spec if the revision is missing or
        unreadable.
        """
        if stack.is_group:
            return {"resources": {members.GROUP_MEMBER: object_fields.mapping(stack.spec, "template")}}
        revision = stored.by_number.get(stack.revision) if stack.revision is not None else None
        if revision is None:
            return object_fields.mapping(stack.spec, "template")
        uid = revision["metadata"]["uid"]
        if uid not in self._templates:
            try:
                definition = await revisions.get_definition(self.session, revision)
            except (errors.ApiStatusError, errors.TamperedRevision):
                return object_fields.mapping(stack.spec, "template")
            self._templates[uid] = object_fields.mapping(definition, "template")
        return self._templates[uid]

    async def find_kinds(self, session: Session, stored: StoredRevisions, template: Mapping[str, Any]) -> list[Kind]:
        """Return the served kinds that the Stack may have objects of."""
        wanted = set(stored.kinds) or set(list_kinds(template))
        if not wanted:
            return []
        served = session.kinds
        found = resolve_kinds(wanted, served.all())
        if len(found) < len(wanted):
            await served.refresh()
            found = resolve_kinds(wanted, served.all())
        return found

    async def list_children(
        self, session: Session, kind: Kind, stack: StackState, unreadable: dict[str, str], *, only: str = ""
    ) -> list[FoundChild]:
        """Return the objects of a kind that belong to the Stack; only from its own namespace if the user may list no
        others.

        only: the namespace that the session may read; "" for all.
        """
        selector = f"{names.LABEL_STACK_UID}={stack.uid}"
        namespaces = [stack.namespace] if self._is_limited and kind.namespaced else ["", stack.namespace]
        if session is not self.session:
            namespaces = [only] if kind.namespaced else [""]
        for namespace in namespaces:
            try:
                found = await session.list(kind, namespace, selector=selector)
            except errors.ApiStatusError as refused:
                if refused.is_not_found:
                    return []
                if refused.code == UNAUTHORIZED:
                    raise
                unreadable[kind.key] = f"not shown: {kind.plural}: {refused}"
                if not refused.is_forbidden:
                    # A conversion webhook or an aggregated API server that is down only affects objects of its kind.
                    return []
                self._is_limited = self._is_limited or (kind.namespaced and session is self.session)
                continue
            unreadable.pop(kind.key, None)
            children = [FoundChild(kind, raw) for raw in found]
            return [child for child in children if child.belongs_to(stack.uid)]
        return []

    async def add_schemas(self, session: Session, children: list[FoundChild]) -> list[FoundChild]:
        """Return the children; children without a status get the schemas of their kinds."""
        silent = {child.kind for child in children if stack_view.says_nothing(child)}
        if not silent:
            return children
        schemas = session.schemas
        await schemas.load(silent)
        return [
            dataclasses.replace(child, schema=schemas.find_schema(child.kind)) if child.kind in silent else child
            for child in children
        ]


def explain_unknown(stack: StackState) -> str:
    """Explain that the user cannot see the resources of a Stack, because only its revisions list them."""
    return (
        f"the resources and objects of {stack.title} are not shown: you cannot list controllerrevisions.apps in "
        f"namespace {stack.namespace}, which store its template; to see them, ask for permission to list them and "
        "the kinds of its objects there"
    )


def is_remote(stack: StackState) -> bool:
    """Return whether the objects of a Stack are in another cluster."""
    return bool(object_fields.mapping(stack.spec, "kubeConfig"))


def list_kinds(template: Mapping[str, Any]) -> Collection[str]:
    """Return the kinds of a template's manifests, as `apps/v1/Deployment`."""
    manifests = [
        object_fields.mapping(resource, "manifest")
        for resource in object_fields.mapping(template, "resources").values()
    ]
    return {
        f"{object_fields.text(manifest, 'apiVersion')}/{object_fields.text(manifest, 'kind')}" for manifest in manifests
    }


def resolve_kinds(wanted: Collection[str], served: Collection[Kind]) -> list[Kind]:
    """Return the served kinds; in another version if the given version is no longer served."""
    exact = {f"{kind.api_version}/{kind.name}": kind for kind in served}
    by_group = {(kind.group, kind.name): kind for kind in served}
    found: dict[str, Kind] = {}
    for each in sorted(wanted):
        api_version, _, name = each.rpartition("/")
        kind = exact.get(each) or by_group.get((api_version.rpartition("/")[0], name))
        if kind is not None:
            found[kind.key] = kind
    return list(found.values())


# Sessions with the other clusters that Stacks reference, by the kubeconfigs in their Secrets. A Secret of a tenant is
# hostile input, so the operator's rules and limits apply: no login program runs, no file is read, and an address on the
# user's machine is refused unless the home cluster is on that machine too.


class ClusterHidden(errors.HearthError):
    """The other cluster cannot be read. The message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSession:
    """A session with another cluster."""

    session: Session
    namespace: str
    """The only one that may be read; "" for all."""


@dataclass(slots=True)
class OtherClusters:
    """The sessions of one command. One is opened for each kubeconfig."""

    home: Session
    budget: ForeignBudget = field(default_factory=ForeignBudget)
    _consents: dict[str, bool] = field(default_factory=dict)
    """The answers of the user, by server."""
    _open: dict[str, OtherSession] = field(default_factory=dict)
    _connections: list[RemoteConnection] = field(default_factory=list)

    async def find(self, stack: StackState) -> OtherSession:
        """Return the session with the other cluster of a Stack. Raises ClusterHidden."""
        # These import the client for untrusted servers, which few commands need.
        from hearth.kube.auth import inline_kubeconfig
        from hearth.kube.remote.remote_cluster import RemoteConnection
        from hearth.kube.remote.tenant_share import TenantShares

        text = await self._read_kubeconfig(stack)
        try:
            config = inline_kubeconfig.parse(text, allows_loopback=self._is_local(), owner=stack.namespace)
            config.check_keys()
        except errors.KubeconfigRefused as refused:
            raise ClusterHidden(f"{HIDDEN}, and its kubeconfig is refused: {refused}") from refused
        found = self._open.get(config.key)
        if found is None:
            # The path is omitted, because it may be part of a sensitive value.
            url = urllib.parse.urlsplit(config.server)
            server = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
            if not self._may_connect(server):
                flag = "add --other-clusters"
                if self.home.may_connect is refuse_connection:
                    flag = "run `kubectl stack tree --other-clusters`"  # the page for a team has no such flag
                raise ClusterHidden(f"{HIDDEN}; to connect to {server}, {flag}")
            share = TenantShares(is_guarded=not self._is_local()).find(stack.namespace)
            connection = RemoteConnection(config, share)
            try:
                await connection.open()
            except (errors.HearthError, OSError) as error:
                raise ClusterHidden(f"{HIDDEN}, and cannot be reached: {error}") from error
            self._connections.append(connection)
            found = self._open[config.key] = OtherSession(
                session=Session(connection, budget=self.budget), namespace=config.namespace
            )
        return found

    async def close(self) -> None:
        """Close all."""
        while self._connections:
            await self._connections.pop().close()

    def _may_connect(self, server: str) -> bool:
        """Ask the user once for each server. A tenant chose it, and may learn the user's address from the connection."""
        if server not in self._consents:
            self._consents[server] = self.home.may_connect(server)
        return self._consents[server]

    def _is_local(self) -> bool:
        """Return whether the home cluster is on the user's own machine, as for trials."""
        from hearth.kube.auth import foreign_servers

        host = urllib.parse.urlsplit(self.home.connection.credentials.server).hostname or ""
        return host == "localhost" or bool(foreign_servers.deny_address(host))

    async def _read_kubeconfig(self, stack: StackState) -> str:
        reference = cluster_objects.find_kubeconfig(stack.spec)
        if reference is None or not reference.name:
            raise ClusterHidden(HIDDEN)
        try:
            secret = await self.home.get(SECRET, stack.namespace, reference.name)
        except errors.ApiStatusError as refused:
            raise ClusterHidden(f"{HIDDEN}: only the status is shown: {refused}") from refused
        data = object_fields.mapping(secret, "data")
        keys = (reference.key,) if reference.key else cluster_objects.KUBECONFIG_KEYS
        found = next((data[key] for key in keys if isinstance(data.get(key), str)), None)
        if found is None:
            raise ClusterHidden(f"{HIDDEN}: secret/{safe_text.one_line(reference.name)} has no key {' or '.join(keys)}")
        try:
            return base64.b64decode(found, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ClusterHidden(f"{HIDDEN}: secret/{safe_text.one_line(reference.name)} has no text there") from None
