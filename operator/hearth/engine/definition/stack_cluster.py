"""Finds the cluster of a Stack's objects: reads the kubeconfig, and links the Stack once the cluster was reached.

A Stack stays in the cluster that its first target recorded.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from hearth.engine import cluster_objects
from hearth.engine.cluster_objects import KubeconfigRef, StackObject
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.ports import RemoteCluster
from hearth.engine.services import Services
from hearth.model import limits, names, packing
from hearth.model.errors import ApiStatusError, KubeconfigRefused, SourceForbidden, SourceNotFound, TooManyClusters
from hearth.model.kinds import ObjectRef
from hearth.plan.state.condition_types import ClusterReason
from hearth.plan.status.ready_condition import DefinitionRejection

OPEN_GRACE = 5.0
"""Seconds that the first contact may take before the Stack reports that it waits; most clusters answer within one."""
PLACE = "spec.kubeConfig.secretRef"
HERE: Final = "this cluster"
GONE: Final = (ClusterReason.NOT_FOUND, ClusterReason.FORBIDDEN)
"""Reasons why a kubeconfig becomes unreadable while its namespace is being deleted, which deletes RoleBindings as well
as Secrets."""


class ClusterDenied(Exception):
    """A cluster that cannot be used; the message is for the user."""

    def __init__(self, reason: str, message: str) -> None:
        """reason: see `ClusterReason`."""
        self.reason = reason
        super().__init__(message)


class StackCluster:
    """The cluster of one Stack."""

    def __init__(self, uid: str, *, services: Services) -> None:
        self._uid = uid
        self._services = services
        self._problem: DefinitionRejection | None = None
        """Why the cluster in the spec is not used; None if it is used."""
        self._hidden: tuple[frozenset[str], ...] = ()
        """The current and earlier credentials, to be redacted."""
        self._identity = ""
        """The identity of the last linked cluster; "" if unknown."""
        self.is_lost = False
        """Whether the credentials were deleted with the namespace, and no connection is open."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """The credentials, which no message may contain."""
        return frozenset[str]().union(*self._hidden)

    @property
    def problem(self) -> DefinitionRejection | None:
        """Why nothing may be written to the cluster now, or None if it may."""
        if self._problem is not None:
            return self._problem
        link = self._services.links.find(self._uid)
        trouble = link.remote.trouble if link is not None and link.remote is not None else None
        return DefinitionRejection(reason=trouble[0], message=trouble[1]) if trouble is not None else None

    @property
    def refusal(self) -> DefinitionRejection | None:
        """The same if only a user can change it."""
        problem = self.problem
        return problem if problem is not None and problem.reason != ClusterReason.UNREACHABLE else None

    @property
    def server(self) -> str:
        """The URL of the API server of another cluster; "" for the home cluster."""
        link = self._services.links.find(self._uid)
        return link.remote.server if link is not None and link.remote is not None else ""

    def find_sources(self, stack: StackObject) -> frozenset[ObjectRef]:
        """Return the Secret with the kubeconfig."""
        return frozenset({find_secret(stack, stack.kubeconfig)}) if stack.kubeconfig is not None else packing.NOTHING

    async def choose(self, stack: StackObject, before: str | None) -> bool:
        """Link the Stack to the cluster in its spec; return whether that is another connection than before.

        before: URL of the API server that has its objects, "" for the home cluster, or None if it has none.
        Raises ApiStatusError or Unreachable if the home cluster does not answer.
        """
        former = self._services.links.find(self._uid)
        try:
            await self._choose(stack, before)
        except ClusterDenied as error:
            # Keep the problem until the new choice is complete. Otherwise, steps of the home cluster could be written
            # in the meantime.
            self._problem = await self._find_problem(stack, error, before)
        else:
            self._problem, self.is_lost = None, False
        return former is not None and self._services.links.find(self._uid) is not former

    async def _find_problem(
        self, stack: StackObject, denied: ClusterDenied, before: str | None
    ) -> DefinitionRejection | None:
        """Return why the cluster is not used, or None if the open connection is. before: see `choose`."""
        self.is_lost = False
        message = str(denied)
        if stack.deleting and denied.reason in GONE:
            # The Secret is deleted with the namespace, often before the Stack. The deletion can use a connection that
            # is open.
            if self._is_open(before):
                return None
            self.is_lost = await self._services.is_terminating(stack.namespace)
            message = explain_abandoned(stack, before or "") if self.is_lost else message
        return DefinitionRejection(reason=denied.reason, message=message)

    def _is_open(self, before: str | None) -> bool:
        """Return whether the Stack is linked to the cluster that has its objects. before: see `choose`."""
        link = self._services.links.find(self._uid)
        return link is not None and link.remote is not None and before in (None, link.remote.server)

    @property
    def is_full(self) -> bool:
        """Whether a limit prevents the use of one more cluster now."""
        return self._problem is not None and self._problem.reason == ClusterReason.TOO_MANY

    async def _choose(self, stack: StackObject, before: str | None) -> None:
        """Link the Stack. Raises ClusterDenied."""
        if stack.kubeconfig is None:
            if before:
                raise ClusterDenied(ClusterReason.CHANGED, explain_move(before, HERE))
            self._services.links.link_home(self._uid)
            self._disconnect()
            return
        remote = await self._use(stack, stack.kubeconfig)
        if before is not None and before != remote.server:
            self._disconnect(besides=self._services.find_link(self._uid).key)
            raise ClusterDenied(ClusterReason.CHANGED, explain_move(before or HERE, remote.server))
        await remote.wait_open(OPEN_GRACE)
        if not remote.is_open:
            self._services.links.wait_for(self._uid, remote.key)
            raise ClusterDenied(
                *(remote.trouble or (ClusterReason.UNREACHABLE, f"connecting to cluster {remote.host}"))
            )
        self._services.links.link(self._uid, remote, rules=self._services.health_rules)
        self._disconnect(besides=remote.key)
        await self._note_identity(stack, remote, has_objects=before is not None)

    async def _note_identity(self, stack: StackObject, remote: RemoteCluster, *, has_objects: bool) -> None:
        """Post an Event if a different cluster now responds at the same address."""
        former, self._identity = self._identity, remote.identity or self._identity
        if has_objects and former and former != self._identity:
            await self._services.management_cluster.emit_event(
                stack, type_="Warning", reason=ClusterReason.REPLACED, message=explain_replaced(remote.server)
            )

    async def _use(self, stack: StackObject, reference: KubeconfigRef) -> RemoteCluster:
        """Return the cluster of the kubeconfig. Raises ClusterDenied."""
        clusters = self._services.remote_clusters
        if clusters is None:
            raise ClusterDenied(
                ClusterReason.INVALID,
                "spec.kubeConfig: this operator does not manage objects in other clusters; remove it",
            )
        try:
            reader = SourceReader(self._services.management_cluster, self._services.find_boundary(stack))
            text = await read_kubeconfig(reader, stack, reference)
            remote = clusters.use(self._uid, stack.namespace, text)
        except SourceForbidden as error:
            raise ClusterDenied(ClusterReason.FORBIDDEN, str(error)) from error
        except SourceNotFound as error:
            raise ClusterDenied(ClusterReason.NOT_FOUND, str(error)) from error
        except KubeconfigRefused as error:
            raise ClusterDenied(ClusterReason.INVALID, describe_rejected(stack, reference, error)) from error
        except TooManyClusters as error:
            raise ClusterDenied(ClusterReason.TOO_MANY, f"{PLACE}: {error}") from error
        if remote.hidden_texts not in self._hidden:
            self._hidden = (*self._hidden, remote.hidden_texts)[-2:]
        return remote

    def _disconnect(self, *, besides: str = "") -> None:
        if self._services.remote_clusters is not None:
            self._services.remote_clusters.leave(self._uid, besides=besides)

    def close(self) -> None:
        """Release the cluster."""
        self._disconnect()
        self._services.links.drop(self._uid)


async def read_kubeconfig(reader: SourceReader, stack: StackObject, reference: KubeconfigRef) -> str:
    """Return the kubeconfig of a Stack. Raises SourceNotFound, SourceForbidden or KubeconfigRefused."""
    secret = find_secret(stack, reference)
    try:
        data = await reader.get_source(secret, place=PLACE)
    except ApiStatusError as error:
        if not error.is_not_found:
            raise
        way_out = "set spec.deletionPolicy: Abandon to keep the objects in that cluster" if stack.deleting else ""
        ways_out = " or ".join(filter(None, ("create it with a kubeconfig", way_out)))
        message = f"{PLACE}: {secret} does not exist in namespace {secret.namespace}; {ways_out}"
        raise SourceNotFound(message) from error
    return decode(find_value(data, reference, secret))


def find_secret(stack: StackObject, reference: KubeconfigRef) -> ObjectRef:
    """Return the Secret with the kubeconfig."""
    return ObjectRef(group="", kind="Secret", namespace=stack.namespace, name=reference.name)


def find_value(data: Mapping[str, str], reference: KubeconfigRef, ref: ObjectRef) -> str:
    """Return the kubeconfig in base64. Raises SourceNotFound."""
    keys = (reference.key,) if reference.key else cluster_objects.KUBECONFIG_KEYS
    for key in keys:
        if data.get(key):
            return data[key]
    raise SourceNotFound(f"{PLACE}: {ref} has no key {' or '.join(keys)}; add it, or name the key in {PLACE}.key")


def decode(raw: str) -> str:
    """Decode a Secret's value. Raises KubeconfigRefused."""
    if len(raw) > 2 * limits.KUBECONFIG_BYTES:
        raise KubeconfigRefused(f"is larger than {limits.KUBECONFIG_BYTES} bytes; keep only the context that is used")
    try:
        return base64.b64decode(raw, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise KubeconfigRefused("is not UTF-8 text; store the kubeconfig as it is") from None


def describe_rejected(stack: StackObject, reference: KubeconfigRef, error: KubeconfigRefused) -> str:
    """Explain why a kubeconfig is not used."""
    return f"{PLACE}: the kubeconfig in {find_secret(stack, reference)}: {error}"


def explain_move(before: str, wanted: str) -> str:
    """Explain why the objects of a Stack cannot move."""
    return (
        f"spec.kubeConfig: this Stack was started in {before}, and a move to {wanted} would leave its objects "
        "behind; set the former cluster again, or delete the Stack and create it there"
    )


def explain_abandoned(stack: StackObject, server: str) -> str:
    """Explain what happens to the objects if the namespace is deleted with the credentials. server: "" if unknown."""
    return (
        f"namespace {stack.namespace} is being deleted, and with it the kubeconfig of Stack {stack.name}: its objects in "
        f"{server or 'the other cluster'} are left behind; delete those that have the label "
        f"{names.LABEL_STACK_UID}={stack.uid} there"
    )


def explain_replaced(server: str) -> str:
    """Explain what happens to the objects if another cluster answers at the same address."""
    return (
        f"another cluster answers at {server} (its namespace kube-system has another UID): the objects of this Stack are "
        f"created and deleted in that one from now on; if the former cluster still exists, delete the objects in it, which "
        f"have the label {names.LABEL_STACK_UID}"
    )
