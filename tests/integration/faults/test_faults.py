"""Faults between a running operator and a real API server: nothing is lost or duplicated, and the status reports the
problem.

Then rejections: permissions, webhooks, a deleted namespace or kind. The status gives the reason; afterward, all work
continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client.connection import Connection
from hearth.model import errors, names
from hearth.model.child import Object
from support.real import fault_scenario, real_user
from support.real.fault_scenario import Site, elapse
from support.real.servers import admission_webhook
from support.real.servers.admission_webhook import Verdict, Webhook
from support.units import static_credentials

CHILDREN = "/configmaps/shop-"
"""Path of the writes of children; statuses can still be written."""
REVISIONS = "/controllerrevisions"
"""Path of the writes of revisions."""
RBAC = "rbac.authorization.k8s.io"
ALL = ["get", "list", "watch", "create", "update", "patch", "delete"]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def site(source: CredentialSource, tmp_path: Path) -> AsyncIterator[Site]:
    """A fresh namespace, a proxy and an operator."""
    async with fault_scenario.run_site(source, tmp_path) as made:
        yield made


async def test_watches_that_are_cut_again_and_again(site: Site) -> None:
    await site.create()
    number = 1
    for _ in range(5):
        number = await site.edit()
        for _ in range(3):
            site.proxy.cut()
            await elapse(0.2)
    await site.until_complete(number)
    await site.finish()


async def test_versions_that_the_server_has_forgotten(site: Site) -> None:
    await site.create()
    await site.until_complete()
    forgotten = site.proxy.refuse(410, where="resourceVersion=", times=30)
    site.proxy.cut()
    number = await site.edit()
    await site.until_complete(number)
    assert forgotten.given > 0
    await site.finish()


async def test_answers_that_are_lost(site: Site) -> None:
    site.proxy.losses = 10
    await site.create()
    await site.until_complete()
    site.proxy.losses = 10
    await site.until_complete(await site.edit())
    assert site.proxy.losses == 0
    await site.finish()


async def test_a_revision_whose_creation_is_not_known(site: Site) -> None:
    await site.create(1)
    await site.user.patch(site.stack, {"spec": {"rollback": {"onFailure": True}, "retry": {"limit": 1}}})
    await site.until_complete()
    site.proxy.filter = hide_revisions
    site.proxy.losses, site.proxy.losses_where = 1, REVISIONS
    await site.edit()
    await site.proxy.pulse.until(lambda: not site.proxy.losses)
    away = site.proxy.refuse(503, where=REVISIONS)
    refused = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"no key": ""}}
    await site.user.patch(site.stack, {"spec": {"template": {"resources": {"r0": {"manifest": refused}}}}})
    await site.until_said("by the test")
    away.lift()
    await site.until_phase("RollbackComplete")
    stored = await site.find_revisions()
    assert sorted(raw["revision"] for raw in stored) == [1, 2, 3]
    site.proxy.filter = None
    site.proxy.cut()
    await site.finish()


async def test_a_server_that_asks_for_patience(site: Site) -> None:
    busy = site.proxy.refuse(429, where=CHILDREN, retry_after=3)
    await site.create(40)
    await site.until_said("too many requests")
    await elapse(2.0)
    times: dict[str, list[float]] = {}
    for target, moment in zip(site.proxy.targets, site.proxy.moments, strict=True):
        if CHILDREN in target:
            times.setdefault(target.partition("?")[0], []).append(moment)
    assert all(later - sooner >= 3.0 for moments in times.values() for sooner, later in itertools.pairwise(moments))
    first = min(min(moments) for moments in times.values())
    assert not [moment for moments in times.values() for moment in moments if first + 1.0 < moment < first + 2.9]
    busy.lift()
    await site.until_complete()
    await site.finish()


@pytest.mark.parametrize("code", [500, 503])
async def test_a_server_that_fails_at_writes(site: Site, code: int) -> None:
    broken = site.proxy.refuse(code, where=CHILDREN)
    await site.create()
    await site.until_said("cannot apply", "by the test")
    await elapse(2.0)
    broken.lift()
    await site.until_complete()
    await site.finish()


@pytest.mark.parametrize("seconds", [5.0, pytest.param(120.0, marks=pytest.mark.soak)])
async def test_a_server_that_is_away(site: Site, seconds: float) -> None:
    await site.create()
    await site.until_complete()
    number = await site.edit()
    away = site.proxy.refuse(503)
    site.proxy.cut()
    await elapse(seconds)
    away.lift()
    await site.until_complete(number)
    await site.finish()


async def test_a_server_that_is_slow(site: Site) -> None:
    site.proxy.delay = 1.0
    await site.create(10)
    await site.until_complete()
    site.proxy.delay = 0.0
    await site.finish()


@pytest.mark.parametrize("times", [10, pytest.param(400, marks=pytest.mark.soak)])
async def test_memory_stays_flat(site: Site, times: int) -> None:
    await site.create(50)
    await site.until_complete()

    async def suffer(often: int) -> None:
        number = 1
        for _ in range(often):
            number = await site.edit()
            away = site.proxy.refuse(503)
            site.proxy.cut()
            await asyncio.sleep(0.2)
            away.lift()
            await asyncio.sleep(0.1)
        await site.until_complete(number)

    # Objects that are created once and kept (code, pools, tables) are not a leak.
    await suffer(10)
    before = site.operator.read_memory()
    await suffer(times)
    grown = site.operator.read_memory() - before
    print(f"grew by {grown:.1f} MiB from {before:.1f} MiB")
    assert grown < 10, f"grew by {grown:.1f} MiB from {before:.1f} MiB"
    await site.finish()


def hide_revisions(line: bytes) -> bytes | None:
    """The line of a watch, unless it is about a revision, whose metadata is watched."""
    is_revision = line.startswith(b'{"type":') and f'"{names.ANNOTATION_REVISION}":'.encode() in line
    return None if is_revision else line


# ---------------------------------------------------------------- webhooks


@pytest.fixture
async def guard(site: Site) -> AsyncIterator[Webhook]:
    """A webhook before every write of a ConfigMap in the site's namespace. Initially it allows all writes."""
    async with admission_webhook.run_webhook() as made:
        body = made.make_configuration(site.namespace, namespace=site.namespace)
        await site.user.connection.request("POST", admission_webhook.CONFIGURATIONS, body=body)
        try:
            yield made
        finally:
            with contextlib.suppress(errors.ApiStatusError):
                await site.user.connection.request("DELETE", f"{admission_webhook.CONFIGURATIONS}/{site.namespace}")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [("deny", "not on a Friday"), ("hang", "failed calling webhook")],
)
async def test_a_webhook_in_the_way(site: Site, guard: Webhook, verdict: Verdict, said: str) -> None:
    await admission_webhook.wait_asked(guard, site.user)
    guard.verdict = verdict
    await site.create()
    await site.until_said("cannot apply", said)
    guard.verdict = "allow"
    guard.released.set()
    await site.until_complete()
    guard.released.clear()
    guard.verdict = verdict
    number = await site.edit()
    await site.until_said("cannot apply", said)
    guard.verdict = "allow"
    guard.released.set()
    await site.until_complete(number)
    await site.finish()


async def test_a_webhook_that_is_taken_away(site: Site, guard: Webhook) -> None:
    await admission_webhook.wait_asked(guard, site.user)
    guard.verdict = "deny"
    await site.create()
    await site.until_said("not on a Friday")
    await site.user.connection.request("DELETE", f"{admission_webhook.CONFIGURATIONS}/{site.namespace}")
    await site.until_complete()
    await site.finish()


# ---------------------------------------------------------------- rights


async def test_rights_that_are_taken_and_given_back(source: CredentialSource, tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as parts:
        connection = await parts.enter_async_context(Connection(source))
        namespace = await fault_scenario.make_namespace(connection, parts)
        account = await make_account(connection, namespace, source)
        await grant(connection, namespace, "own", rules_of_the_operator())
        await grant(connection, namespace, "children", [rule([""], ["configmaps"], ALL)])
        site = await parts.enter_async_context(
            fault_scenario.run_site(source, tmp_path, operator_source=account, namespace=namespace)
        )
        await site.create()
        await site.until_complete()
        for left in (["get", "list", "watch", "delete"], []):
            await grant(connection, namespace, "children", [rule([""], ["configmaps"], left)] if left else [])
            site.proxy.cut()
            number = await site.edit()
            await site.until_said("cannot patch resource")
            await grant(connection, namespace, "children", [rule([""], ["configmaps"], ALL)])
            await site.until_complete(number)
        await site.finish()


async def make_account(connection: Connection, namespace: str, source: CredentialSource) -> CredentialSource:
    """An account without any rights."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await connection.request("POST", accounts, body={"metadata": {"name": "hearth"}})
    answer = await connection.request("POST", f"{accounts}/hearth/token", body={"spec": {}})
    return static_credentials.log_in(source.load(), answer["status"]["token"])


def rules_of_the_operator() -> list[Object]:
    """The rules that the operator needs for itself in one namespace."""
    return [
        rule([names.GROUP], ["stacks", "stacks/status", "resourcegroups", "stacksnapshots"], ALL),
        rule(["apps"], ["controllerrevisions"], ALL),
        rule([""], ["secrets", "events"], ALL),
    ]


def rule(groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


async def grant(connection: Connection, namespace: str, name: str, rules: list[Object]) -> None:
    """Bind a Role with these rules to the account, replacing an earlier one."""
    path = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    subject = {"kind": "ServiceAccount", "name": "hearth", "namespace": namespace}
    bodies: dict[str, Object] = {
        "roles": {"kind": "Role", "rules": rules},
        "rolebindings": {
            "kind": "RoleBinding",
            "subjects": [subject],
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        },
    }
    for plural, body in bodies.items():
        manifest = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name, "namespace": namespace}, **body}
        await connection.request(
            "PATCH",
            f"{path}/{plural}/{name}",
            query={"fieldManager": "test", "force": "true"},
            body=manifest,
            content_type="application/apply-patch+yaml",
        )


# ---------------------------------------------------------------- deleted things


async def test_a_namespace_that_goes(site: Site) -> None:
    """In the middle of a creation: the deletion is not blocked, nothing is recreated, and no error is logged."""
    slow = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}, "readyWhen": ["a.data.a == 'c'"]}
    after = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}, "dependsOn": ["a"]}
    await site.apply({"template": {"resources": {"a": slow, "b": after}}})
    await site.until_said("waits for a")
    await site.user.connection.request("DELETE", f"/api/v1/namespaces/{site.namespace}")
    for _ in fault_scenario.attempts():
        if not await is_there(site, f"/api/v1/namespaces/{site.namespace}"):
            break
        await elapse(0.1)
    assert not await is_there(site, f"/api/v1/namespaces/{site.namespace}")
    assert {name: len(uids) for name, uids in site.made.items()} == {"a": 1}
    site.check_operator()


async def test_a_kind_that_goes_and_comes_back(site: Site) -> None:
    definition = make_definition(site)
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    await real_user.install(site.user, [definition])
    try:
        manifest = {"apiVersion": f"{definition['spec']['group']}/v1", "kind": "Widget", "spec": {"value": 1}}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${params.word}"}}
        resources = {"widget": {"manifest": manifest}, "config": {"manifest": config}}
        parameters = {"word": {"type": "string", "default": "one"}}
        await site.apply({"template": {"parameters": parameters, "resources": resources}})
        await until_phase(site, "CreateComplete")
        await site.user.connection.request("DELETE", path)
        await site.until_said("Widget")
        await site.user.patch(site.stack, {"spec": {"parameters": {"word": "two"}}})
        await elapse(1.0)
        await real_user.install(site.user, [definition])
        await until_phase(site, "UpdateComplete")
        widgets = f"/apis/{definition['spec']['group']}/v1/namespaces/{site.namespace}/widgets"
        found = await site.user.connection.request("GET", widgets)
        assert [raw["spec"] for raw in found["items"]] == [{"value": 1}]
        await site.finish()
    finally:
        with contextlib.suppress(errors.ApiStatusError):
            await site.user.connection.request("DELETE", path)


def make_definition(site: Site) -> Object:
    """A kind that only this test uses; its objects are ready at once."""
    group = f"{site.namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return real_user.make_crd(group, "Widget", {"v1": schema})


async def until_phase(site: Site, phase: str) -> None:
    """Wait until the Stack reports this phase for its current spec."""
    found: Object = {}
    for _ in fault_scenario.attempts():
        found = await site.user.find(site.stack) or {}
        status = found.get("status") or {}
        if status.get("phase") == phase and status["observedGeneration"] == found["metadata"]["generation"]:
            return
        await elapse(0.1)
    raise AssertionError(f"expected {phase}, found {found.get('status')}")


async def is_there(site: Site, path: str) -> bool:
    """Whether the object exists."""
    try:
        await site.user.connection.request("GET", path)
    except errors.ApiStatusError as refused:
        if refused.code != 404:
            raise
        return False
    return True
