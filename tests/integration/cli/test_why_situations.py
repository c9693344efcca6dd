"""`kubectl stack why` in each typical situation, on a real API server with a real operator."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import shlex
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.stack_access import evidence
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands.showing import explanation_commands
from hearth.cli.stack_views.causes import stack_causes
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK
from support.real import user_shell
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.situations import offers, pod_situations, stack_situations
from support.real.situations.situation import Situation
from support.real.stack_command import StackCommand
from support.stories import stack_manifests

SITUATIONS = (*pod_situations.POD_SITUATIONS, *stack_situations.STACK_SITUATIONS)
PATIENCE_SECONDS = 60.0
"""Ten times the longest time seen on a busy machine."""
POLL_SECONDS = 2.0
POD = Kind(group="", version="v1", name="Pod", plural="pods", namespaced=True)
EVENT = Kind(group="", version="v1", name="Event", plural="events", namespaced=True)
MANAGER = {"fieldManager": "kubectl-stack-tests"}
SETTLED = ("Complete", "Failed", "Stopped")


@pytest.fixture
def session(connection: Connection) -> Session:
    """The requests of a user with all rights."""
    return Session(connection)


def fill(value: Any, namespace: str) -> Any:
    """The value with the namespace in place of NS."""
    return json.loads(json.dumps(value).replace("NS", namespace))


async def arrange(session: Session, namespace: str, situation: Situation) -> None:
    """Create the objects and the Stack without waiting."""
    for manifest in fill(list(situation.before), namespace):
        kind = session.kinds.find(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        await session.create(kind, namespace if kind.namespaced else "", body=manifest)
    template = {
        "parameters": {"size": {"type": "string", "default": "s"}},
        "resources": fill(dict(situation.resources), namespace),
    }
    body = stack_manifests.make_stack(
        {"template": template, **fill(dict(situation.spec), namespace)}, name=situation.name, namespace=namespace
    )
    await session.create(STACK, namespace, body=body)


async def change(session: Session, namespace: str, situation: Situation) -> None:
    """Make the follow-up change once the Stack has settled."""
    if not situation.then:
        return
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for raw in session.watch_one(STACK, namespace, situation.name):
            if raw is not None and str(raw["status"].get("phase")).endswith(SETTLED):
                break
    for kind_name, name, patch in situation.then:
        kind = STACK if kind_name == "Stack" else session.kinds.find("v1", kind_name)
        assert kind is not None
        path = api_requests.object_path(kind, namespace, name)
        if patch is None:
            await session.connection.request("DELETE", path)
        else:
            await session.connection.request(
                "PATCH", path, query=MANAGER, body=patch, content_type=api_requests.MERGE_PATCH
            )


async def play_kubelet(session: Session, namespace: str, situation: Situation) -> None:
    """Write the status of its Pods that a kubelet would write, and post the Warning."""
    if situation.pod is None:
        return
    prefix = f"{situation.name}-"
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not found:
            pods = await session.list(POD, namespace)
            found = [pod for pod in pods if pod["metadata"]["name"].startswith(prefix) and is_running(pod)]
            await asyncio.sleep(POLL_SECONDS / 5)
    for pod in found:
        path = api_requests.object_path(POD, namespace, pod["metadata"]["name"]) + "/status"
        await session.connection.request(
            "PATCH", path, body={"status": situation.pod}, content_type=api_requests.MERGE_PATCH
        )
        if situation.progress is not None:
            await post_event(session, namespace, pod, *situation.progress, type_="Normal")
        if situation.event is not None:
            await post_event(session, namespace, pod, *situation.event)


def is_running(pod: Any) -> bool:
    """Whether the control plane has set the first status of the pod."""
    return bool(pod.get("status", {}).get("phase") == "Running")


async def post_event(
    session: Session, namespace: str, pod: Any, reason: str, message: str, *, type_: str = "Warning"
) -> None:
    """Post an Event as a kubelet does."""
    metadata = pod["metadata"]
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": namespace,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {
        "metadata": {"generateName": "seen-", "namespace": namespace},
        "involvedObject": about,
        "type": type_,
        "reason": reason,
        "message": message,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    await session.create(EVENT, namespace, body=body)


async def explain(session: Session, namespace: str, situation: Situation) -> str:
    """The output of `why`."""
    snapshot = await StackReader(session).read(StackLocation(STACK, namespace, situation.name))
    if snapshot is None:
        return ""
    collected = await evidence.collect(session, snapshot)
    path = situation.where.split("/") if situation.where else []
    causes = stack_causes.find_causes(snapshot, path, collected)
    # Do not await in between, because other situations are explained at the same time.
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        explanation_commands.show(snapshot, path, causes or ())
    return written.getvalue()


async def find_missing(session: Session, namespace: str, situation: Situation) -> str:
    """The texts that the explanation still lacks after the time limit; "" if it has all."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        shown = await explain(session, namespace, situation)
        missing = [each for each in situation.expected if each.replace("NS", namespace) not in shown]
        if not missing:
            return ""
        if time.monotonic() > deadline:
            return f"{situation.name}: {missing} not in\n{shown}"
        await asyncio.sleep(POLL_SECONDS)


async def test_every_situation_is_explained_to_its_root(
    workers: Crew, user: RealUser, session: Session, kubeconfig: Path
) -> None:
    await workers.hire()
    await session.kinds.refresh()
    namespace = user.namespace
    try:
        for situation in SITUATIONS:
            await arrange(session, namespace, situation)
        missing = await asyncio.gather(*(check(session, namespace, situation) for situation in SITUATIONS))
    finally:
        await clean_up(session, namespace)

    if any(missing):
        pytest.fail("\n".join(each for each in missing if each))
    assert len(SITUATIONS) >= 30
    command = StackCommand(kubeconfig=kubeconfig, namespace=namespace)
    assert "nothing is wrong" in await command.expect("why", "fine")
    assert "has no resource 'none'; resources: web" in await command.expect("why", "fine/none", code=1)


async def check(session: Session, namespace: str, situation: Situation) -> str:
    """Create the situation; return the texts that its explanation lacks."""
    try:
        await change(session, namespace, situation)
        await play_kubelet(session, namespace, situation)
    except TimeoutError:
        return f"{situation.name}: it does not come about\n{await explain(session, namespace, situation)}"
    return await find_missing(session, namespace, situation)


async def clean_up(session: Session, namespace: str) -> None:
    """Release objects that would block the end of the test."""
    hook = session.kinds.find("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    config = session.kinds.find("v1", "ConfigMap")
    assert hook is not None
    assert config is not None
    await session.connection.request("DELETE", api_requests.object_path(hook, "", namespace))
    for name in ("held-web", "deleted-web"):
        path = api_requests.object_path(config, namespace, name)
        with contextlib.suppress(errors.ApiStatusError):
            await session.connection.request(
                "PATCH", path, body={"metadata": {"finalizers": None}}, content_type=api_requests.MERGE_PATCH
            )


async def test_every_command_that_is_offered_helps(
    workers: Crew, user: RealUser, session: Session, kubeconfig: Path, tmp_path: Path
) -> None:
    await workers.hire()
    await session.kinds.refresh()
    namespace = user.namespace
    shell = Shell(
        session, namespace, await asyncio.to_thread(user_shell.make_environment, kubeconfig, namespace, tmp_path)
    )
    try:
        for situation in SITUATIONS:
            await arrange(session, namespace, situation)
        missing = await asyncio.gather(*(check(session, namespace, situation) for situation in SITUATIONS))
        wrong = [await shell.try_all(situation) for situation in SITUATIONS]
    finally:
        await clean_up(session, namespace)

    if found := [each for each in (*missing, *wrong) if each]:
        pytest.fail("\n".join(found))
    assert offers.find_untried(shell.tried) == []


@dataclass(slots=True)
class Shell:
    """The shell of a user that follows the advice."""

    session: Session
    namespace: str
    environment: dict[str, str]
    tried: list[str] = field(default_factory=list)

    async def try_all(self, situation: Situation) -> str:
        """Run all suggested commands, reading commands first; return the first failure, "" if all succeed."""
        found = list(offers.find_commands(await explain(self.session, self.namespace, situation)))
        for command in sorted(found, key=lambda each: not offers.reads(each)):
            self.tried.append(command)
            done = await asyncio.to_thread(self.run, command, situation)
            said = f"{situation.name}: {command}\n{done.stdout}{done.stderr}"
            if not offers.is_answered(command, done.returncode, done.stdout):
                return said
            if not offers.reads(command) and not situation.remains and not await self.is_over(command, situation):
                return f"{said}\nis offered still:\n{await explain(self.session, self.namespace, situation)}"
        return ""

    def run(self, command: str, situation: Situation) -> subprocess.CompletedProcess[str]:
        """Run a pasted command."""
        editor = f"sed -i -e {shlex.quote(situation.edit)}" if situation.edit else "false"
        return subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            env=self.environment | {"KUBE_EDITOR": editor},
        )

    async def is_over(self, command: str, situation: Situation) -> bool:
        """Whether the command disappears from the suggestions within the time limit."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if command not in await explain(self.session, self.namespace, situation):
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False


async def test_without_an_operator_it_says_so(user: RealUser, session: Session) -> None:
    fine = next(each for each in SITUATIONS if each.name == "fine")
    await arrange(session, user.namespace, fine)

    shown = await explain(session, user.namespace, fine)

    assert "no operator has reported on the current generation: is one running" in shown
