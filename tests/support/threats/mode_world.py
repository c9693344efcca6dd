"""Stories under exactly the rights that a variant of the installation grants, as one mode of tenancy.

Each story has its own namespace and operator, with a token of the shipped ServiceAccount.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client.connection import Connection
from hearth.model.api import crd
from hearth.model.tenancy import Mode
from hearth.settings import DEFAULT_OPERATOR_NAMESPACE, Settings
from support.real import real_user
from support.real.real_user import RealUser
from support.real.real_world import MAX_BACKOFF, InProcess, Operator, RealWorld, RecordedMachine
from support.stories import probe_controller
from support.threats.api import Api, Object

ACCOUNT = "deployer"
OPERATOR = "system:serviceaccount:hearth-system:hearth"
GROUP = "rbac.authorization.k8s.io"
OWN = frozenset(
    {
        *("stacks", "resourcegroups", "healthmarks", "stacksnapshots"),
        *("controllerrevisions", "events", "leases"),
        *("selfsubjectaccessreviews", "subjectaccessreviews"),
    }
)
"""Resources that the operator writes with its own account."""
OWN_SECRETS = frozenset({"hearth-hash-key"})
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """One mode, and the manifests it is installed with."""

    mode: Mode
    variant: str
    """The folder of the manifests."""
    account: str | None
    """The ServiceAccount of Stacks; None for none."""

    @property
    def namespaced_watches(self) -> frozenset[str]:
        """Kinds that the operator cannot watch in all namespaces."""
        return frozenset({"Secret"}) if self.variant == "strict" else frozenset()


class ModeWorld(RealWorld):
    """A real world whose operator has the shipped rights."""

    def __init__(self, user: RealUser, admin: CredentialSource, operator: CredentialSource, rights: Rights) -> None:
        super().__init__(user, admin)
        self._operator_source = operator
        self._rights = rights

    def make_operator(self) -> Operator:
        """Make the next operator; its mode comes from this world, not from the story."""
        settings = Settings(
            namespace=self.namespace,
            operator_namespace=DEFAULT_OPERATOR_NAMESPACE,
            tenancy=self._rights.mode,
            default_service_account=self._rights.account,
            namespaced_watches=self._rights.namespaced_watches,
            max_backoff=MAX_BACKOFF,
        )
        return InProcess(RecordedMachine(settings, self._operator_source, self.traffic))


@contextlib.asynccontextmanager
async def opened(api: Api, admin: Path, operator: Path, *, namespace: str, rights: Rights) -> AsyncIterator[ModeWorld]:
    """A world in that namespace. admin, operator: kubeconfigs."""
    prepare_namespace(api, namespace, rights)
    source, own = (
        credentials.find_source(kubeconfig=str(path), context=None, environ={}) for path in (admin, operator)
    )
    async with Connection(source) as connection:
        user = RealUser(connection, namespace)
        await real_user.install(user, [*crd.make_crds(), probe_controller.definition()])
        made = ModeWorld(user, source, own, rights)
        made.open()
        try:
            yield made
        finally:
            await made.close()


def prepare_cluster(api: Api, rights: Rights) -> None:
    """Grant the operator rights for the kinds of stories, as the installation of a custom kind would."""
    group = probe_controller.definition()["spec"]["group"]
    verbs = ["list", "watch"]
    if rights.variant != "strict":
        verbs += ["get", "create", "patch", "update", "delete"]
    rule = {"apiGroups": [group], "resources": ["*"], "verbs": verbs}
    labels = {"hearth.dev/aggregate-to-children": "true"}
    metadata = {"name": "hearth-children-probes", "labels": labels}
    api.apply({"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}).expect()
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create", "patch", "delete"]}
    role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": [everything]}
    api.apply(role).expect()


def prepare_namespace(api: Api, namespace: str, rights: Rights) -> None:
    """Create the account of the Stacks, and let the operator watch Secrets there if the installation does not."""
    operator = {"kind": "ServiceAccount", "name": "hearth", "namespace": DEFAULT_OPERATOR_NAMESPACE}
    if rights.variant == "strict":
        bind(api, namespace, "hearth-watch-secrets", operator)
    if rights.account is not None:
        metadata = {"name": rights.account, "namespace": namespace}
        api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}).expect()
        bind(api, namespace, ACCOUNT, {"kind": "ServiceAccount", **metadata})


def bind(api: Api, namespace: str, role: str, subject: Object) -> None:
    """Bind a ClusterRole in one namespace."""
    metadata = {"name": role, "namespace": namespace}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    binding = {"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", "metadata": metadata}
    api.apply({**binding, "roleRef": reference, "subjects": [subject]}).expect()


# ------------------------------------------------------------ the audit log


def find_own_requests(events: Iterator[dict[str, Any]]) -> list[str]:
    """Writes of children and reads of sources with the operator's own account: `patch configmaps web`."""
    found: dict[str, None] = {}
    for event in events:
        if event["user"]["username"] != OPERATOR or event.get("impersonatedUser"):
            continue
        where, verb = event.get("objectRef") or {}, event["verb"]
        resource, name = where.get("resource", ""), where.get("name", "")
        is_own = resource in OWN or (where.get("namespace") == DEFAULT_OPERATOR_NAMESPACE and name in OWN_SECRETS)
        is_read = verb == "get" and resource in ("secrets", "configmaps") and name != "hearth-health-rules"
        if not is_own and (verb in WRITES or is_read):
            found[f"{verb} {resource} {name}"] = None
    return list(found)
