"""On a real API server, a rejected step is retried as soon as the cause is removed, long before the next scheduled
retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import structlog

from hearth.kube.auth.credentials import Credentials, CredentialSource
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.settings import Settings
from support.change_signal import Pulse
from support.real import fault_proxy
from support.real.real_user import RealUser
from support.real.real_world import InProcess, RecordedMachine
from support.real.servers import admission_webhook
from support.server.request_faults import Traffic
from support.stories import stack_manifests
from support.stories.world import Address
from support.units import static_credentials

FIRST_DELAY = 60.0
"""Delay in seconds before the second attempt, doubled before the third. Neither is due while a test runs."""
SOON = 25.0
"""Maximum seconds until the early retry. After two failures, its delay is seven and a half seconds."""
RBAC = "rbac.authorization.k8s.io"
ALL = ["get", "list", "watch", "create", "update", "patch", "delete"]
READ = ["get", "list", "watch"]


class PatientMachine(RecordedMachine):
    """An operator with a backoff of minutes from the first failure on."""

    def _make_backoff(self) -> BackoffPolicy:
        return BackoffPolicy(first_delay=FIRST_DELAY, max_backoff=600.0, jitter=lambda: 0.0)


@dataclass
class Site:
    """A namespace, a user with all permissions in it, and the operator's requests."""

    user: RealUser
    source: CredentialSource
    traffic: Traffic

    @property
    def namespace(self) -> str:
        return self.user.namespace

    @contextlib.asynccontextmanager
    async def operator(self, source: CredentialSource | None = None) -> AsyncIterator[None]:
        """Run an operator as the administrator, or as the account of `source`."""
        settings = Settings(
            namespace=self.namespace, operator_namespace=self.namespace, max_backoff=datetime.timedelta(minutes=10)
        )
        operator = InProcess(PatientMachine(settings, source or self.source, self.traffic))
        await operator.start()
        try:
            yield
        finally:
            await operator.kill()

    async def create(self, kind: str, name: str, *, api_version: str = "v1", **content: object) -> Object:
        """An object in the namespace."""
        metadata = {"name": name, "namespace": self.namespace}
        return await self.user.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content})

    async def create_stack(self, *resources: str) -> None:
        """A Stack `shop` of ConfigMaps with these names."""
        template = {
            "resources": {
                name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}} for name in resources
            }
        }
        api_version = f"{names.GROUP}/{names.VERSION}"
        await self.create("Stack", "shop", api_version=api_version, spec={"template": template})

    async def until(self, phase: str, *, reason: str = "", within: float = 60.0) -> None:
        """Wait until the Stack reports this."""
        address = stack_manifests.address_in(self.namespace)
        latest = time.monotonic() + within
        while True:
            status = ((await self.user.find(address)) or {}).get("status") or {}
            reasons = [each["reason"] for each in status.get("problems") or ()]
            if status.get("phase") == phase and (not reason or reason in reasons):
                return
            assert time.monotonic() < latest, f"expected {phase} {reason}, found {status}"
            await asyncio.sleep(0.1)

    async def until_tried(self, times: int) -> None:
        """Wait until that many applies were sent."""
        async with asyncio.timeout(60):
            while self.traffic.count()["apply"] < times:  # noqa: ASYNC110 -- no event marks the count
                await asyncio.sleep(0.05)


@pytest.fixture
def site(user: RealUser, source: CredentialSource) -> Site:
    """A fresh namespace."""
    return Site(user, source, Traffic())


async def test_a_quota_that_is_raised(site: Site) -> None:
    key = "count/configmaps"
    quota = await site.create("ResourceQuota", "small", spec={"hard": {key: "0"}})
    one_more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "namespace": site.namespace}}
    async with asyncio.timeout(60):
        await site.user.wait_refused(one_more)
    async with site.operator():
        await site.create_stack("web")
        # Once as planned, and once more when the watch of quotas started, because it may have missed a change.
        await site.until_tried(2)
        await site.until("CreateInProgress", reason="Unavailable")
        await site.user.patch(
            Address.of({**quota, "apiVersion": "v1", "kind": "ResourceQuota"}), {"spec": {"hard": {key: "50"}}}
        )
        await site.until("CreateComplete", within=SOON)
    assert site.traffic.count()["apply"] <= 5


async def test_a_name_that_is_freed(site: Site) -> None:
    theirs = {
        **await site.create("ConfigMap", "shop-web", data={"precious": "thing"}),
        "apiVersion": "v1",
        "kind": "ConfigMap",
    }
    async with site.operator():
        await site.create_stack("web")
        await site.until("CreateFailed", reason="NotOwned")
        await site.user.delete(Address.of(theirs))
        await site.until("CreateComplete", within=SOON)


async def test_rights_that_are_granted(site: Site) -> None:
    """The account can watch only the Roles of its namespace; the missing permission is reported once."""
    await site.create("ServiceAccount", "deployer")
    rules = [
        rule([names.GROUP], ["stacks", "stacks/status", "resourcegroups", "stacksnapshots"], ALL),
        rule(["apps"], ["controllerrevisions"], ALL),
        rule([""], ["secrets", "events"], ALL),
        rule(["", "testing.hearth.dev"], ["configmaps", "probes"], READ),
        rule([RBAC], ["roles", "rolebindings"], READ),
    ]
    await bind(site, "few", rules)
    with structlog.testing.capture_logs() as said:
        async with site.operator(await log_in(site)):
            await site.create_stack("web")
            await site.until_tried(2)
            await site.until("CreateInProgress", reason="Denied")
            await bind(site, "more", [rule([""], ["configmaps"], ALL)])
            await site.until("CreateComplete", within=SOON)
    reported = [each for each in said if each["event"].startswith("cannot watch retry triggers")]
    assert sorted(each["kind"] for each in reported) == ["ClusterRole", "ClusterRoleBinding"]
    assert [each for each in said if each["log_level"] == "error"] == []


def rule(groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


async def bind(site: Site, name: str, rules: list[Object]) -> None:
    """A Role with these rules, and the account bound to it."""
    path = f"/apis/{RBAC}/v1/namespaces/{site.namespace}"
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    await site.user.connection.request("POST", f"{path}/roles", body=role)
    subjects = [{"kind": "ServiceAccount", "name": "deployer", "namespace": site.namespace}]
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    await site.create("RoleBinding", name, api_version=f"{RBAC}/v1", roleRef=reference, subjects=subjects)


async def log_in(site: Site) -> CredentialSource:
    """The credentials of the account."""
    path = f"/api/v1/namespaces/{site.namespace}/serviceaccounts/deployer/token"
    answer = await site.user.connection.request("POST", path, body={"spec": {}})
    return static_credentials.log_in(site.source.load(), answer["status"]["token"])


async def test_a_webhook_whose_pods_are_back(site: Site) -> None:
    path = f"{admission_webhook.CONFIGURATIONS}/{site.namespace}"
    async with admission_webhook.run_webhook() as guard, site.operator():
        body = guard.make_configuration(site.namespace, namespace=site.namespace)
        # Services of pods are unreachable here, so the webhook names one Service, and a local server answers.
        (answered,) = body["webhooks"]
        service = {"name": "guard", "namespace": site.namespace}
        named = {**answered, "name": "named.testing.hearth.dev", "clientConfig": {"service": service}}
        body["webhooks"].append({**named, "objectSelector": {"matchLabels": {"matches": "nothing"}}})
        await site.user.connection.request("POST", admission_webhook.CONFIGURATIONS, body=body)
        try:
            await admission_webhook.wait_asked(guard, site.user)
            guard.verdict = "fail"
            await site.create_stack("web")
            await site.until_tried(2)
            await site.until("CreateInProgress", reason="Unavailable")
            guard.verdict = "allow"
            slice_ = {"addressType": "IPv4", "endpoints": []}
            made = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **slice_}
            metadata = {"name": "guard-1", "labels": {"kubernetes.io/service-name": "guard"}}
            slices = f"/apis/discovery.k8s.io/v1/namespaces/{site.namespace}/endpointslices"
            await site.user.connection.request("POST", slices, body={**made, "metadata": metadata})
            await site.until("CreateComplete", within=SOON)
        finally:
            await site.user.connection.request("DELETE", path)


async def test_a_server_that_is_back(site: Site) -> None:
    async with fault_proxy.run_proxy(site.source.load(), pulse=Pulse()) as between:
        source = static_credentials.FixedSource(Credentials(server=between.url))
        async with site.operator(source):
            away = between.refuse(503, where="/configmaps/shop-")
            await site.create_stack("web")
            await site.until("CreateInProgress", reason="Unavailable")
            away.lift()
            between.cut()
            await site.until("CreateComplete", within=SOON)


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


async def test_a_policy_that_is_taken_back(site: Site) -> None:
    name = site.namespace
    selector = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    constraints = {"namespaceSelector": selector, "resourceRules": rules}
    validations = [{"expression": "false", "message": "not on a Friday"}]
    policy = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": validations}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    send = site.user.connection.request
    await send("POST", POLICIES, body={**kind, "metadata": {"name": name}, "spec": policy})
    await send(
        "POST", BINDINGS, body={**kind, "kind": f"{kind['kind']}Binding", "metadata": {"name": name}, "spec": binding}
    )
    try:
        one_more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "namespace": site.namespace}}
        async with asyncio.timeout(60):
            await site.user.wait_refused(one_more)
        async with site.operator():
            await site.create_stack("web")
            await site.until_tried(2)
            await site.until("CreateInProgress", reason="Denied")
            # Wait longer than the delay of an early retry after the last failure, so that the next retry comes at once.
            await asyncio.sleep(FIRST_DELAY / 4 + 3.0)
            await send("DELETE", f"{POLICIES}/{name}")
            await site.until("CreateComplete", within=12.0)
        assert site.traffic.count()["apply"] <= 8
    finally:
        await send("DELETE", f"{BINDINGS}/{name}")
