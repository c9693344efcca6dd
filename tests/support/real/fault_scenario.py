"""The setup of fault tests: an operator process behind a proxy, with a Stack under load.

At the end of each test nothing may be lost or duplicated, and the operator must have survived without errors in its
log.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client.connection import Connection
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from hearth.settings import DEFAULT_OPERATOR_NAMESPACE
from support.change_signal import Pulse
from support.real import fault_proxy, operator_process, real_user
from support.real.fault_proxy import FaultProxy
from support.real.operator_process import OperatorProcess
from support.real.real_user import RealUser
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.world import Address

CONFIG_MAP = fake_kinds.CONFIG_MAP.kind
API_VERSION = f"{names.GROUP}/{names.VERSION}"
PATIENCE = 200.0
"""Maximum seconds for anything to happen on a machine that is busy with other tests. After minutes without etcd, an API
server may take most of that to reconnect all its storages."""
POLL = 0.1
CHAINS = 5
"""Resources in a layer. Each requires the resource above it."""


@dataclass(eq=False)
class Site:
    """A namespace, its operator and its user."""

    user: RealUser
    """A user who acts for the test, bypassing the proxy."""
    proxy: FaultProxy
    operator: OperatorProcess
    made: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of all objects of each resource."""
    _rounds: itertools.count[int] = field(default_factory=lambda: itertools.count(2))

    @property
    def namespace(self) -> str:
        return self.user.namespace

    @property
    def stack(self) -> Address:
        return stack_manifests.address_in(self.namespace)

    async def create(self, count: int = 20) -> None:
        """Create a Stack of that many ConfigMaps in layers, without waiting for it."""
        resources = {f"r{number}": make_resource(number) for number in range(count)}
        template = {"parameters": {"round": {"type": "integer"}}, "resources": resources}
        await self.apply({"template": template, "parameters": {"round": 1}})

    async def apply(self, spec: Object) -> None:
        """Create a Stack with that spec."""
        await self.user.create(stack_manifests.make_stack(spec, name=self.stack.name, namespace=self.namespace))

    async def edit(self) -> int:
        """Change the value of every resource; return the number of the round."""
        number = next(self._rounds)
        await self.user.patch(self.stack, {"spec": {"parameters": {"round": number}}})
        return number

    async def get_status(self) -> dict[str, Any]:
        found = await self.user.find(self.stack)
        return dict((found or {}).get("status") or {})

    async def until_said(self, *parts: str) -> None:
        """Wait until the message of `Ready` contains each of these texts."""
        found = ""
        for _ in attempts():
            conditions = (await self.get_status()).get("conditions") or ()
            found = next((each["message"] for each in conditions if each["type"] == "Ready"), "")
            if all(part in found for part in parts):
                return
            await asyncio.sleep(POLL)
        raise AssertionError(f"expected {parts} in the message of Ready, found {found!r}")

    async def until_phase(self, phase: str) -> None:
        found = ""
        for _ in attempts():
            found = (await self.get_status()).get("phase", "")
            if found == phase:
                return
            await asyncio.sleep(POLL)
        raise AssertionError(f"expected the phase {phase}, found {found}")

    async def find_revisions(self) -> list[Object]:
        """The stored revisions of the Stack."""
        found = await self.user.find(self.stack)
        return [] if found is None else await self.user.find_revisions(found["metadata"]["uid"])

    async def until_complete(self, number: int = 1) -> None:
        """Wait until the Stack is complete and every object has the value of that round."""
        wrong = ""
        for _ in attempts():
            wrong = await self._find_missing(number)
            if not wrong:
                return
            await asyncio.sleep(POLL)
        raise AssertionError(wrong)

    async def _find_missing(self, number: int) -> str:
        found = await self.user.find(self.stack)
        status = (found or {}).get("status") or {}
        if found is None or status.get("observedGeneration") != found["metadata"]["generation"]:
            return f"the status is behind: {status}"
        if not status["phase"].endswith("Complete"):
            return f"not complete: {status}"
        objects = await self.user.list_labelled(CONFIG_MAP, found["metadata"]["uid"])
        wanted = dict.fromkeys(found["spec"]["template"]["resources"], str(number))
        held = {raw["metadata"]["labels"][names.LABEL_RESOURCE]: raw["data"]["round"] for raw in objects}
        return "" if held == wanted else f"said to be complete, but {held} is not {wanted}"

    async def finish(self) -> None:
        """Delete the Stack, then check that nothing is left and nothing went wrong."""
        assert {name: len(uids) for name, uids in self.made.items() if len(uids) != 1} == {}
        self.check_operator()
        with contextlib.suppress(errors.ApiStatusError):
            await self.user.delete(self.stack)
        for _ in attempts():
            if await self.user.find(self.stack) is None:
                break
            await asyncio.sleep(POLL)
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        query = {"labelSelector": names.LABEL_STACK_UID}
        left = await self.user.connection.request("GET", path, query=query)
        assert [raw["metadata"]["name"] for raw in left["items"]] == []
        assert await self.user.find(self.stack) is None
        self.check_operator()

    def check_operator(self) -> None:
        """Check that the operator runs, and logged no unexpected messages."""
        assert self.operator.is_alive
        complaints = self.operator.find_complaints()
        assert complaints == [], "\n".join(complaints)

    async def watch(self) -> None:
        """Record every created object inside the block."""

        def see(event: str, raw: Object) -> None:
            resource = (raw["metadata"].get("labels") or {}).get(names.LABEL_RESOURCE)
            if resource is not None and event != "DELETED":
                self.made.setdefault(resource, set()).add(raw["metadata"]["uid"])

        await self.user.follow(CONFIG_MAP, see)


def make_resource(number: int) -> Object:
    """A ConfigMap that holds the number of the round, from the one that it requires."""
    above = f"r{number - CHAINS}"
    value = "${string(params.round)}" if number < CHAINS else f"${{{above}.data.round}}"
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"round": value}}}


def attempts() -> range:
    """Yield every tenth of a second until the time limit."""
    return range(round(PATIENCE / POLL))


@contextlib.asynccontextmanager
async def run_site(
    source: CredentialSource,
    folder: Path,
    *,
    operator_source: CredentialSource | None = None,
    namespace: str = "",
    serves: str | None = None,
) -> AsyncIterator[Site]:
    """A fresh namespace with an operator that serves it.

    operator_source: the operator's credentials, used through the proxy; namespace: an existing one; serves: the
    namespace that the operator serves, "" for all.
    """
    async with contextlib.AsyncExitStack() as parts:
        connection = await parts.enter_async_context(Connection(source))
        user = RealUser(connection, namespace or await make_namespace(connection, parts))
        await real_user.install_all(user)
        credentials = (operator_source or source).load()
        between = await parts.enter_async_context(fault_proxy.run_proxy(credentials, pulse=Pulse()))
        kubeconfig = operator_process.write_kubeconfig(folder / "kubeconfig.json", between.url)
        operator = OperatorProcess(
            kubeconfig=kubeconfig,
            namespace=user.namespace if serves is None else serves,
            # An operator that serves all namespaces does not serve Stacks in its own one.
            operator_namespace=user.namespace if serves is None else DEFAULT_OPERATOR_NAMESPACE,
            log_file=folder / "operator.log",
            options=() if serves is None else (f"--tenancy={Mode.TRUSTED}",),
        )
        site = Site(user, between, operator)
        await operator.start()
        parts.push_async_callback(operator.kill)
        watching = asyncio.create_task(site.watch())
        parts.callback(watching.cancel)
        yield site


async def make_namespace(connection: Connection, parts: contextlib.AsyncExitStack) -> str:
    """A fresh namespace, deleted at the end without waiting."""
    made = await connection.request("POST", "/api/v1/namespaces", body={"metadata": {"generateName": "faults-"}})
    name = str(made["metadata"]["name"])

    async def delete() -> None:
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            await connection.request("DELETE", f"/api/v1/namespaces/{name}")

    parts.push_async_callback(delete)
    return name


async def elapse(seconds: float) -> None:
    """Let a fault last for some time."""
    latest = time.monotonic() + seconds
    while time.monotonic() < latest:  # noqa: ASYNC110 -- it is time that is waited for
        await asyncio.sleep(POLL)
