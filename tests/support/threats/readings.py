"""What an attacker sees of a namespace, and the grant that a refusal offers."""

from __future__ import annotations

from support.threats.api import Api, Object
from support.threats.world import Tenant, ThreatWorld


def name_of(account: Api) -> str:
    """The name of the ServiceAccount that an Api acts as."""
    return account.account.split("/")[1]


def see_everything(threats: ThreatWorld, tenant: Tenant) -> str:
    """All that a reader without a right to Secrets sees of the namespace."""
    kinds = ("Stack", "Event", "ControllerRevision", "ConfigMap")
    return str([threats.api.list(kind, tenant.namespace) for kind in kinds])


def find_message(threats: ThreatWorld, tenant: Tenant, name: str) -> str:
    """The problems and warnings of a Stack as text."""
    status = threats.find_status(tenant.namespace, name)
    return str([status.get("problems") or (), status.get("warnings") or ()])


def wait_message(threats: ThreatWorld, tenant: Tenant, name: str, *words: str) -> str:
    """Until the problems or warnings of a Stack contain these words."""

    def look() -> str:
        found = find_message(threats, tenant, name)
        return found if all(word in found for word in words) else ""

    return threats.wait_for(look, what=f"{words} of stack/{name}")


def make_binding(account: Api, namespace: str, *, resource: str, verbs: tuple[str, ...]) -> list[Object]:
    """What the message of a denied read says to run."""
    group, name = "rbac.authorization.k8s.io", f"{name_of(account)}-get-{resource}"
    metadata = {"name": name, "namespace": namespace}
    rule = {"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    subject = {"kind": "ServiceAccount", "name": name_of(account), "namespace": account.account.split("/")[0]}
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata}
    return [role, {**binding, "roleRef": reference, "subjects": [subject]}]
