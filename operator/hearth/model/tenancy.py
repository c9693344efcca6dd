"""The tenancy of the operator, and the boundary of each Stack: its namespaces and the account that writes its objects.

Only names are compared. The API server checks RBAC.
"""

from __future__ import annotations

import enum
import functools
import re

from hearth.model import value_class
from hearth.model.kinds import Kind, ObjectRef

REASON = "NamespaceNotAllowed"
"""Reason in the status of a Stack or resource that its boundary denies."""
ACCOUNT_REQUIRED = "ServiceAccountRequired"
"""Reason in the status of a Stack that must name an account."""
ACCOUNT_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
ACCOUNT = re.compile(ACCOUNT_NAME)
BOUNDARIES_KEPT = 1_000
"""Number of cached boundaries.

Every write needs the boundary of its Stack, and creating one costs ten times as much as a lookup.
"""
WRITING = "get,create,patch,delete"
"""The verbs that an account needs for a kind of children."""
READING = "get"
"""The verb that an account needs for the fields of an object."""
LISTING = ("list", "watch")
"""The verbs that an account needs for a list of objects."""


class Mode(enum.StrEnum):
    """Actions of a Stack that use the rights of the operator."""

    ISOLATED = "isolated"
    """Everything in the Stack's own namespace."""
    STRICT = "strict"
    """Nothing: every Stack needs an account."""
    TRUSTED = "trusted"
    """Everything."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinerAccount:
    """The ServiceAccount that a StackDefinition names. The objects of all instances are written with its rights."""

    namespace: str
    name: str
    definition: str
    """The name of the StackDefinition."""
    is_confined: bool = True
    """Whether the objects must be in the namespace of the instance. The tenancy of the operator does not apply."""

    def __str__(self) -> str:
        return f"{self.namespace}:{self.name}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The boundary of one Stack. Each of its objects must be inside."""

    namespace: str
    """The namespace of the Stack."""
    is_confined: bool
    """Whether the objects must be in the namespace of the Stack."""
    closed: str = ""
    """The operator's namespace, which is closed to every Stack. "" for none."""
    account: str = ""
    """The ServiceAccount that all requests about the Stack's objects and sources are made as; "" for the operator's own."""
    definer: DefinerAccount | None = None
    """The account if a StackDefinition names it. None if the Stack names it; then it is in the Stack's namespace."""
    is_definer_denied: bool = False
    """Whether the operator may not act as that account."""
    lacks_account: bool = False
    """Whether the Stack must name an account and names none."""

    @property
    def account_namespace(self) -> str:
        """Return the namespace of the account."""
        return self.definer.namespace if self.definer is not None else self.namespace

    @property
    def user(self) -> str:
        """Return the user name of the account; "" for the operator's own."""
        return f"system:serviceaccount:{self.account_namespace}:{self.account}" if self.account else ""

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups of the account, as the API server sets them; () for the operator's own."""
        if not self.account:
            return ()
        return ("system:serviceaccounts", f"system:serviceaccounts:{self.account_namespace}", "system:authenticated")

    @property
    def stack_denial(self) -> str:
        """Return why the Stack may have no objects at all, or ""."""
        if self.closed and self.namespace == self.closed:
            return (
                f"the Stack is in namespace {self.closed}, which belongs to the operator and is closed to every Stack; "
                f"create it in another namespace"
            )
        if self.definer is not None and self.is_definer_denied:
            return (
                f"StackDefinition {self.definer.definition} acts as ServiceAccount {self.account} in namespace "
                f"{self.account_namespace}, which the operator is not allowed to do; ask an administrator to start "
                "the operator with "
                f"--definition-accounts={self.definer}"
            )
        if self.lacks_account:
            return (
                "the Stack specifies no ServiceAccount, and the operator does not use its own permissions "
                "(--tenancy=strict); "
                "set spec.serviceAccountName"
            )
        if self.account and not ACCOUNT.fullmatch(self.account):
            return "spec.serviceAccountName is not the name of a ServiceAccount; correct it"
        return ""

    @property
    def denial_reason(self) -> str:
        """Return the reason in the status for `stack_denial`."""
        return ACCOUNT_REQUIRED if self.lacks_account and self.namespace != self.closed else REASON

    def find_denial(self, ref: ObjectRef) -> str:
        """Return why the object must not be read or written for the Stack, or ""."""
        if denial := self.stack_denial:
            return f"is not allowed: {denial}"
        if self.is_closed(ref):
            return f"is in namespace {self.closed}, which belongs to the operator and is closed to every Stack; use another namespace"
        if not self.is_confined or ref.namespace == self.namespace:
            return ""
        found = f"is in namespace {ref.namespace}" if ref.namespace else "is cluster-scoped"
        if self.definer is not None:
            return (
                f"{found}, but StackDefinition {self.definer.definition} can only create objects in the namespace of "
                f"each instance, {self.namespace}; change its template, or set its spec.boundary: Cluster"
            )
        return (
            f"{found}, but a Stack can only manage objects in its own namespace, {self.namespace}; "
            f"{self._find_way_out(ref)}, or ask an administrator to start the operator with --tenancy=trusted"
        )

    def _find_way_out(self, ref: ObjectRef) -> str:
        if not ref.namespace:
            return "set spec.serviceAccountName to a ServiceAccount with the required rights, or remove the resource"
        return (
            f"set spec.serviceAccountName to a ServiceAccount with rights in namespace {ref.namespace}, remove "
            f"metadata.namespace, or create the Stack in namespace {ref.namespace}"
        )

    def find_list_denial(self, kind: Kind, namespace: str) -> str:
        """Return why the objects of a kind must not be listed for the Stack, or "". namespace: "" for all."""
        if namespace or not kind.namespaced or not self.is_confined or self.stack_denial:
            return self.find_denial(ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=""))
        way_out = (
            "set spec.serviceAccountName to a ServiceAccount with the required rights"
            if self.definer is None
            else f"let StackDefinition {self.definer.definition} state spec.boundary: Cluster"
        )
        return (
            f"covers all namespaces, but a Stack can only read its own namespace, {self.namespace}; {way_out}, or "
            "remove "
            "allNamespaces"
        )

    def is_closed(self, ref: ObjectRef) -> bool:
        """Return whether the object is, or is in, the closed namespace of the operator.

        Lists for a Stack omit these objects.
        """
        if not self.closed:
            return False
        return ref.namespace == self.closed or (ref.group, ref.kind, ref.name) == ("", "Namespace", self.closed)

    def explain_grant(self, kind: Kind, namespace: str) -> str:
        """Return the commands that give the account the rights to a kind of objects. namespace: "" for all."""
        return self._write_grant(f"{self.account}-{kind.plural}", WRITING, kind, namespace)

    def explain_read_denial(self, kind: Kind, ref: ObjectRef) -> str:
        """Return why no field of the object is shown or used, with the commands that grant access.

        Does not contain data of the object.
        """
        grant = self._write_grant(f"{self.account}-get-{kind.plural}", READING, kind, ref.namespace)
        return f"ServiceAccount {self.account} cannot get {ref}; to allow it, run: {grant}"

    def explain_list_denial(self, kind: Kind, namespace: str) -> str:
        """Return why no list of these objects is shown or used, with the commands that grant access. namespace: "" for
        all.
        """
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        grant = self._write_grant(f"{self.account}-list-{kind.plural}", ",".join(LISTING), kind, namespace)
        what = f"{kind.plural} {where}" if kind.namespaced else kind.plural
        return f"ServiceAccount {self.account} cannot list and watch {what}; to allow it, run: {grant}"

    def _write_grant(self, role: str, verbs: str, kind: Kind, namespace: str) -> str:
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        return write_grant(self.subject, verbs, resource, role=role, namespace=namespace)

    @property
    def subject(self) -> str:
        """Return the account as a flag of kubectl."""
        return f"--serviceaccount={self.account_namespace}:{self.account}"


def write_grant(subject: str, verbs: str, resource: str, *, role: str, namespace: str, name: str = "") -> str:
    """Return the commands that give rights by a role with that name.

    subject: a flag of kubectl, `--user=…` or `--serviceaccount=…`; namespace: "" for all; name: the only object, "" for all.
    """
    scope, within = ("role", f" --namespace={namespace}") if namespace else ("clusterrole", "")
    only = f" --resource-name={name}" if name else ""
    return (
        f"kubectl create {scope} {role} --verb={verbs} --resource={resource}{only}{within} && "
        f"kubectl create {scope}binding {role} --{scope}={role} {subject}{within}"
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The tenancy of one operator."""

    mode: Mode = Mode.ISOLATED
    closed: str = ""
    """The namespace that is closed to every Stack, "" for none."""
    default_account: str = ""
    """The ServiceAccount of Stacks that name none; "" for none."""
    definer_accounts: frozenset[str] = frozenset()
    """The ServiceAccounts that StackDefinitions may name, as `namespace:name`."""

    def find_boundary(
        self, namespace: str, account: str = "", *, is_remote: bool = False, definer: DefinerAccount | None = None
    ) -> Boundary:
        """Return the boundary of a Stack in that namespace. account: the ServiceAccount that it names, "" for none.

        is_remote: whether its objects are in another cluster. There, the rights of its kubeconfig are the boundary.
        definer: the account that its StackDefinition names, which takes precedence.
        """
        if definer is not None:
            return _make_definer_boundary(self.closed, namespace, definer, str(definer) not in self.definer_accounts)
        return _make_boundary(self.mode, self.closed, namespace, account or self.default_account, is_remote)


@functools.lru_cache(maxsize=BOUNDARIES_KEPT)
def _make_definer_boundary(closed: str, namespace: str, definer: DefinerAccount, is_denied: bool) -> Boundary:
    return Boundary(
        namespace=namespace,
        is_confined=definer.is_confined,
        closed=closed,
        account=definer.name,
        definer=definer,
        is_definer_denied=is_denied,
    )


@functools.lru_cache(maxsize=BOUNDARIES_KEPT)
def _make_boundary(mode: Mode, closed: str, namespace: str, account: str, is_remote: bool) -> Boundary:
    return Boundary(
        namespace=namespace,
        is_confined=mode is Mode.ISOLATED and not account and not is_remote,
        closed=closed,
        account=account,
        lacks_account=mode is Mode.STRICT and not account,
    )
