"""Tenants, their accounts and Stacks, and a canary, on a control plane reserved for one test.

Imports nothing of Hearth, so that the same test can run an older operator.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import places

from support.threats import installation
from support.threats.api import STACK_VERSION, Api, Object
from support.threats.operator import POLL, Operator

T = TypeVar("T")

LABEL = "threats.hearth.test"
"""The label of every namespace that these tests create."""
RBAC = "rbac.authorization.k8s.io"
WRITE = ("create", "update", "patch", "delete")
READ = ("get", "list", "watch")
PATIENCE = 60.0
"""Seconds on a busy machine for actions that take one or two."""
CLEARED = (
    "Stack",
    "ResourceGroup",
    "HealthMark",
    "StackSnapshot",
    "StackPlan",
    "ControllerRevision",
    "Deployment",
    "StatefulSet",
    "Job",
    "ConfigMap",
    "Secret",
    "Service",
)
"""Kinds whose objects are removed from a namespace at the end, with or without finalizers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Permissions of an account in its namespace."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def render(self) -> Object:
        """As a rule of a Role."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}


STACKS = Rule(group="hearth.dev", resources=("stacks",), verbs=(*READ, *WRITE))
CONFIG_MAPS = Rule(group="", resources=("configmaps",), verbs=(*READ, *WRITE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """Duration until a new Stack of an uninvolved tenant was served, by `Operator.read_clock`."""

    made: float
    """Seconds until the object existed."""
    complete: float
    """Seconds until its phase was CreateComplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A namespace and its accounts. Every method creates a new account."""

    world: ThreatWorld
    namespace: str

    def make_account(self, name: str, *rules: Rule) -> Api:
        """An account with exactly these permissions in this namespace, and those that every account has."""
        admin, namespace = self.world.api, self.namespace
        name = f"{name}-{next(self.world.numbers)}"
        metadata = {"name": name, "namespace": namespace}
        admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        self._bind(name, {"kind": "ServiceAccount", **metadata}, rules)
        made = admin.acting_as(namespace, name)
        # The authorizer follows Roles with its own watch.
        self.world.wait_for(lambda: made.send("GET", *_probe(namespace, rules)).code != 403 if rules else True)
        return made

    def admit_user(self, user: str, *rules: Rule) -> None:
        """Give a user of another issuer exactly these permissions in this namespace."""
        subject = {"kind": "User", "name": user, "apiGroup": RBAC}
        self._bind(f"user-{next(self.world.numbers)}", subject, rules)

    def _bind(self, name: str, subject: Mapping[str, str], rules: tuple[Rule, ...]) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
        self.world.api.create({**role, "rules": [rule.render() for rule in rules]})
        reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
        binding = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": metadata}
        self.world.api.create({**binding, "roleRef": reference, "subjects": [subject]})

    def author(self, *more: Rule) -> Api:
        """An account that may only write Stacks and the resources in `more` (`CONFIG_MAPS`)."""
        return self.make_account("author", STACKS, *more)

    def editor(self, *resources: str, group: str = "") -> Api:
        """An account that can write ordinary objects except Stacks. resources: `configmaps` by default."""
        return self.make_account(
            "editor", Rule(group=group, resources=resources or ("configmaps",), verbs=(*READ, *WRITE))
        )

    def annotator(self, *resources: str, group: str = "") -> Api:
        """Can get and patch, as `kubectl annotate` requires."""
        return self.make_account("annotator", Rule(group=group, resources=resources, verbs=(*READ, "patch")))

    def status_patcher(self, *resources: str, group: str = "apps") -> Api:
        """An account that may only patch the subresource `status`. resources: for example `deployments`."""
        status = tuple(f"{each}/status" for each in resources)
        readable = Rule(group=group, resources=resources, verbs=READ)
        return self.make_account(
            "status", readable, Rule(group=group, resources=status, verbs=("get", "patch", "update"))
        )

    def revision_editor(self) -> Api:
        """May write ControllerRevisions."""
        return self.editor("controllerrevisions", group="apps")

    def health_marker(self) -> Api:
        """May write HealthMarks."""
        return self.make_account("marker", Rule(group="hearth.dev", resources=("healthmarks",), verbs=(*READ, *WRITE)))


@dataclass(slots=True, kw_only=True)
class ThreatWorld:
    """An administrator, an operator, tenants."""

    api: Api
    """The API as the administrator."""
    operator: Operator
    audit_log: Path
    """Where the API server logs requests, if it does."""
    kubeconfig: Path = Path()
    """The kubeconfig of the administrator."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    _bystander: Api | None = None
    _bystander_namespace: str = ""

    # ------------------------------------------------------------ tenants

    def make_namespace(self, prefix: str = "tenant") -> str:
        metadata = {"generateName": f"{prefix}-", "labels": {LABEL: "true"}}
        made = self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return str(made["metadata"]["name"])

    def tenant(self, prefix: str = "tenant") -> Tenant:
        """A tenant with its own namespace."""
        return Tenant(world=self, namespace=self.make_namespace(prefix))

    # ------------------------------------------------------------ Stacks

    def find_status(self, namespace: str, name: str) -> Object:
        """The status of a Stack; empty if it does not exist."""
        return (self.api.get("Stack", namespace, name) or {}).get("status") or {}

    def wait_phase(
        self,
        namespace: str,
        name: str,
        *phases: str,
        within: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> Object:
        """Wait until the current generation of a Stack has one of these phases; return the Stack."""

        def look() -> Object | None:
            stack = self.api.get("Stack", namespace, name) or {}
            status = stack.get("status") or {}
            is_present = status.get("observedGeneration") == stack.get("metadata", {}).get("generation")
            return stack if is_present and status.get("phase") in phases else None

        what = f"{'/'.join(phases)} of stack/{name} in {namespace}"
        return self.wait_for(look, within=within, what=what, clock=clock)

    def wait_problem(self, namespace: str, name: str, *, within: float = PATIENCE) -> Object:
        """Wait for the first problem of a resource in the status of a Stack."""

        def look() -> Object | None:
            return next(iter(self.find_status(namespace, name).get("problems") or ()), None)

        return self.wait_for(look, within=within, what=f"a problem of stack/{name} in {namespace}")

    # ------------------------------------------------------------ the canary

    def canary(self, within: float = 10.0) -> Canary:
        """A new Stack of one ConfigMap by an uninvolved tenant must complete within that many seconds.

        Seconds in which other processes had the processors do not count.
        """
        if self._bystander is None:
            tenant = self.tenant("canary")
            self._bystander, self._bystander_namespace = tenant.author(), tenant.namespace
        namespace, name = self._bystander_namespace, f"canary-{next(self.numbers)}"
        clock = self.operator.read_clock
        began = clock()
        self._bystander.create(make_stack(namespace, name, {"cfg": make_config_map(f"{name}-cfg")}))
        self.wait_for(
            lambda: self.api.get("ConfigMap", namespace, f"{name}-cfg"),
            within=within,
            what="the canary's object",
            clock=clock,
        )
        made = clock() - began
        self.wait_phase(namespace, name, "CreateComplete", within=within - made, clock=clock)
        return Canary(made=made, complete=clock() - began)

    # ------------------------------------------------------------ waiting

    def wait_for(
        self,
        look: Callable[[], T | None],
        *,
        within: float = PATIENCE,
        what: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> T:
        """Wait until `look` returns a true value and return it; otherwise raises AssertionError with the operator's
        log.
        """
        latest = clock() + within
        while not (found := look()):
            assert clock() < latest, f"not within {within:g} s: {what}\n{self.describe_operator()}"
            time.sleep(POLL)
        return found

    def describe_operator(self) -> str:
        """The operator's pages and the end of its log."""
        operator = self.operator
        pages = "".join(
            f"{path}: {operator.get(path).code} {operator.get(path).text}\n" for path in ("/healthz", "/readyz")
        )
        return f"{pages}exit code: {operator.code}\n{operator.read_log()[-4000:]}"

    # ------------------------------------------------------------ the end

    def clear(self) -> None:
        """Remove all objects of the tests, with or without finalizers; namespaces end on their own."""
        for namespace in self.api.list("Namespace", labelSelector=LABEL):
            name = namespace["metadata"]["name"]
            for kind in CLEARED:
                self._delete_all(kind, name)
            self.api.delete("Namespace", "", name)
        for kind in ("ConfigMap", "Secret", "Lease"):
            self._delete_all(kind, "hearth-system")

    def _delete_all(self, kind: str, namespace: str) -> None:
        # The API server still asks a deleted admission webhook for a moment, which may refuse.
        self.wait_for(
            lambda: self.api.delete_all(kind, namespace).is_accepted, what=f"the deletion of each {kind} in {namespace}"
        )


@contextlib.contextmanager
def open_world(
    kubeconfig: Path, folder: Path, *, variant: str = installation.USUAL, options: tuple[str, ...] = ()
) -> Iterator[ThreatWorld]:
    """A world with a ready operator, on a control plane that no other test uses; its objects are removed afterward.

    variant: the folder of `manifests` whose rights the operator has; options: further flags of `hearth run`.
    """
    api = installation.connect(kubeconfig)
    installation.install(api, variant)
    operator = Operator(
        checkout=installation.find_root(),
        kubeconfig=installation.write_operator_kubeconfig(api, kubeconfig, folder / "kubeconfig"),
        log_file=folder / "operator.log",
        options=options,
    )
    home = places.Home(kubeconfig.parent.name)
    made = ThreatWorld(api=api, operator=operator, audit_log=home.audit_log, kubeconfig=kubeconfig)
    made.wait_for(lambda: installation.is_installed(api), what="CRDs and rights")
    made.clear()
    try:
        operator.start()
        yield made
    finally:
        operator.kill()
        made.clear()


def make_stack(
    namespace: str, name: str, resources: Mapping[str, Any], *, template: Mapping[str, Any] | None = None, **spec: Any
) -> Object:
    """A Stack of these resources (name → definition). template: further fields of the template; spec: of the spec."""
    metadata = {"name": name, "namespace": namespace}
    full = {"template": {**(template or {}), "resources": dict(resources)}, **spec}
    return {"apiVersion": STACK_VERSION, "kind": "Stack", "metadata": metadata, "spec": full}


def make_config_map(name: str = "", data: Mapping[str, str] | None = None, **fields: Any) -> Object:
    """A resource of a template: a ConfigMap, with an explicit name if given. fields: next to `manifest`."""
    metadata = {"metadata": {"name": name}} if name else {}
    return {
        "manifest": {"apiVersion": "v1", "kind": "ConfigMap", **metadata, "data": dict(data or {"a": "b"})},
        **fields,
    }


def _probe(namespace: str, rules: tuple[Rule, ...]) -> tuple[str]:
    rule = rules[0]
    prefix = f"/apis/{rule.group}/" if rule.group else "/api/"
    version = "v1alpha1" if rule.group == "hearth.dev" else "v1"
    return (f"{prefix}{version}/namespaces/{namespace}/{rule.resources[0]}",)


def name_of(account: Api) -> str:
    """The name of the ServiceAccount that an Api acts as."""
    return account.account.split("/")[1]


def see_everything(threats: ThreatWorld, tenant: Tenant) -> str:
    """All data in the namespace that is visible without a right to Secrets."""
    kinds = ("Stack", "Event", "ControllerRevision", "ConfigMap")
    return str([threats.api.list(kind, tenant.namespace) for kind in kinds])


def find_message(threats: ThreatWorld, tenant: Tenant, name: str) -> str:
    """The problems and warnings of a Stack as text."""
    status = threats.find_status(tenant.namespace, name)
    return str([status.get("problems") or (), status.get("warnings") or ()])


def wait_message(threats: ThreatWorld, tenant: Tenant, name: str, *words: str) -> str:
    """Wait until the problems or warnings of a Stack contain these words."""

    def look() -> str:
        found = find_message(threats, tenant, name)
        return found if all(word in found for word in words) else ""

    return threats.wait_for(look, what=f"{words} of stack/{name}")


def make_binding(account: Api, namespace: str, *, resource: str, verbs: tuple[str, ...]) -> list[Object]:
    """Run the commands in the message about a denied read."""
    group, name = "rbac.authorization.k8s.io", f"{name_of(account)}-get-{resource}"
    metadata = {"name": name, "namespace": namespace}
    rule = {"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    subject = {"kind": "ServiceAccount", "name": name_of(account), "namespace": account.account.split("/")[0]}
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata}
    return [role, {**binding, "roleRef": reference, "subjects": [subject]}]
