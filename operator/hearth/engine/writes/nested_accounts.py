"""The account that a nested Stack names: the account of the parent must be allowed to use it.

Otherwise a Stack could do as a nested one what its own account may not do.
"""

from __future__ import annotations

from hearth.engine.ports import WorkloadCluster
from hearth.model import names
from hearth.model.kinds import Kind
from hearth.model.tenancy import Boundary
from hearth.model.well_known_kinds import POD
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from hearth.plan.state.steps import Apply

ACCOUNTS = Kind(group="", version="v1", name="ServiceAccount", plural="serviceaccounts", namespaced=True)

REASON = "Forbidden"


async def refuse(step: Apply, *, cluster: WorkloadCluster, boundary: Boundary) -> StepFailure | None:
    """Explain why the account of the parent may not apply this nested Stack; None for any other or an allowed object.

    cluster: as the account of the parent accesses it; boundary: of the parent. A user of an account may impersonate it, or
    create Pods that run as it.
    """
    named, namespace = find_account(step), step.ref.namespace
    if not boundary.account or not named or (namespace, named) == (boundary.account_namespace, boundary.account):
        return None
    if await cluster.is_allowed("impersonate", kind=ACCOUNTS, namespace=namespace, name=named):
        return None
    if await cluster.is_allowed("create", kind=POD, namespace=namespace):
        return None
    role = f"{boundary.account}-as-{named}"
    message = (
        f"cannot apply {step.ref}: it names ServiceAccount {named}, which ServiceAccount {boundary.account} may not use; to "
        f"allow it, run: kubectl create role {role} --verb=impersonate --resource=serviceaccounts --resource-name={named} "
        f"--namespace={namespace} && kubectl create rolebinding {role} --role={role} "
        f"--serviceaccount={boundary.account_namespace}:{boundary.account} --namespace={namespace}"
    )
    return StepFailure(
        reason=REASON, message=message, causes=(RetryTrigger(type=TriggerType.RIGHTS, namespace=namespace),)
    )


def find_account(step: Apply) -> str:
    """Return the ServiceAccount that a nested Stack names; "" for none, and for any other object."""
    if not names.is_stack(step.kind.group, step.kind.name):
        return ""
    spec = step.manifest.get("spec")
    named = spec.get("serviceAccountName") if isinstance(spec, dict) else None
    return named if isinstance(named, str) else ""
