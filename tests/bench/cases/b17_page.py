"""B17: the page for a team. Many people keep the list of many Stacks open while Stacks change.

Each person has a token of their own. They open the list at the same time and follow its updates as a browser does. One
more person never reads their updates. The CPU and the memory are those of `hearth page`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import html
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import orjson

from bench.instruments import bare_api, figures, place, usage, workload
from bench.instruments.bare_api import BareApi
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Say
from bench.instruments.workload import ROLE, SERVICE_ACCOUNT
from hearth.kube.auth import credentials
from hearth.kube.client import api_requests
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK
from support import free_port
from support.real import stack_command

PEOPLE, QUICK_PEOPLE = 100, 5
STACKS, QUICK_STACKS = 1_000, 20
CHANGES, QUICK_CHANGES = 20, 3
HOST: Final = "hearth.example.com"
CLUSTER_ROLE = Kind(group=ROLE.group, version="v1", name="ClusterRole", plural="clusterroles", namespaced=False)
CLUSTER_BINDING = Kind(
    group=ROLE.group, version="v1", name="ClusterRoleBinding", plural="clusterrolebindings", namespaced=False
)
UPDATES: Final = re.compile(r'data-updates="([^"]+)"')
TAGS: Final = re.compile(r"<[^>]*>|^[^>]*>")
RELOAD: Final = 1.0
"""Seconds until people reload a page with an error."""
REST: Final = 20.0
"""Seconds without a change for the figures at rest."""
BETWEEN: Final = 2.0
"""Seconds between two changes, so that people see them separately."""
PATIENCE: Final = 300.0
"""Seconds for everybody to get the list, and for a change to reach everybody."""
TAIL: Final = 200
"""Bytes of a chunk that are searched again with the next one."""


@dataclass(slots=True, eq=False)
class Person:
    """One browser: it notes when it sees the text that it waits for."""

    token: str
    awaited: str = ""
    seen_at: float | None = None
    reloads: int = 0
    problem: str = ""
    is_live: asyncio.Event = field(default_factory=asyncio.Event)

    async def look(self, client: aiohttp.ClientSession, url: str) -> None:
        """Open the list, and follow its updates until cancelled."""
        headers = {"Host": HOST, "Authorization": f"Bearer {self.token}"}
        while True:
            async with client.get(url, headers=headers) as answer:
                text = await answer.text()
            if (updates := UPDATES.search(text)) is not None:
                break
            # People reload the page if it says that the server is busy.
            self.reloads += 1
            self.problem = " ".join(TAGS.sub(" ", text.partition("<main")[2]).split())
            await asyncio.sleep(RELOAD)
        # A browser follows again when a stream ends.
        while True:
            async with client.get(f"{url}{html.unescape(updates[1])}", headers=headers) as answer:
                answer.raise_for_status()
                self.is_live.set()
                rest = b""
                async for chunk in answer.content.iter_any():
                    content = rest + chunk
                    if self.awaited and self.seen_at is None and self.awaited.encode() in content:
                        self.seen_at = time.monotonic()
                    rest = content[-TAIL:]


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Let people open the list, look at it, and see changes."""
    people, stacks = (QUICK_PEOPLE, QUICK_STACKS) if options.quick else (PEOPLE, STACKS)
    async with bare_api.connected(str(options.kubeconfig)) as api:
        await place.install(api)
        async with place.namespace(api, name) as namespace, with_readers(api, namespace):
            stack_names = [f"shop-{number:04}" for number in range(stacks)]
            await bare_api.for_each(stack_names, lambda each: create_stack(api, namespace, each))
            tokens = await make_tokens(api, namespace, people + 1)
            with tempfile.TemporaryDirectory() as folder:
                async with run_page(str(options.kubeconfig), Path(folder)) as (process, url):
                    programs = usage.SERVERS | usage.REST_OF_CONTROL_PLANE
                    servers = usage.find_processes(programs, folder=options.kubeconfig.parent)
                    audience = Audience(api, namespace, stack_names, process, url, tokens, options.say, servers)
                    return await audience.measure(name, QUICK_CHANGES if options.quick else CHANGES)


async def create_stack(api: BareApi, namespace: str, name: str) -> None:
    """A Stack as an operator leaves it."""
    manifest = workload.make_stack(name, namespace, workload.make_small_template())
    await api.send("POST", api_requests.collection_path(STACK, namespace), body=manifest)
    await write_status(api, namespace, name, "4 resources are ready")


async def write_status(api: BareApi, namespace: str, name: str, message: str) -> None:
    """Write a status with this message."""
    since = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "Complete", "message": message, "lastTransitionTime": since}
    status = {"phase": "CreateComplete", "summary": "4/4", "observedGeneration": 1, "conditions": [ready]}
    path = f"{api_requests.object_path(STACK, namespace, name)}/status"
    await api.send("PATCH", path, body={"status": status}, content_type=bare_api.MERGE)


@contextlib.asynccontextmanager
async def with_readers(api: BareApi, namespace: str) -> AsyncIterator[None]:
    """Let all ServiceAccounts of the namespace read all Stacks."""
    rule = {"apiGroups": ["hearth.dev", "apps"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    subject = {"kind": "Group", "apiGroup": ROLE.group, "name": f"system:serviceaccounts:{namespace}"}
    reference = {"apiGroup": ROLE.group, "kind": CLUSTER_ROLE.name, "name": namespace}
    fields = ((CLUSTER_ROLE, {"rules": [rule]}), (CLUSTER_BINDING, {"roleRef": reference, "subjects": [subject]}))
    try:
        for kind, content in fields:
            manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": namespace}, **content}
            await api.apply(api_requests.object_path(kind, "", namespace), manifest)
        yield
    finally:
        for kind in (CLUSTER_BINDING, CLUSTER_ROLE):
            await api.send("DELETE", api_requests.object_path(kind, "", namespace))


async def make_tokens(api: BareApi, namespace: str, count: int) -> list[str]:
    """Return tokens of as many ServiceAccounts."""
    tokens: list[str] = []

    async def add(number: int) -> None:
        account = {"apiVersion": "v1", "kind": SERVICE_ACCOUNT.name, "metadata": {"name": f"person-{number}"}}
        path = api_requests.object_path(SERVICE_ACCOUNT, namespace, f"person-{number}")
        await api.apply(path, account)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        tokens.append(orjson.loads(await api.send("POST", f"{path}/token", body=request))["status"]["token"])

    await bare_api.for_each(range(count), add)
    return tokens


@contextlib.asynccontextmanager
async def run_page(kubeconfig: str, folder: Path) -> AsyncIterator[tuple[int, str]]:
    """The process of the page, and its URL."""
    found = await asyncio.to_thread(credentials.find_source(kubeconfig=kubeconfig, context=None, environ={}).load)
    authority = folder / "ca.crt"
    authority.write_bytes(found.authority or b"")
    port, http = free_port.find_free_port(), free_port.find_free_port()
    command = [*stack_command.find_program("hearth"), "page", f"--url=https://{HOST}", "--plain-http"]
    command += [f"--server={found.server}", f"--certificate-authority={authority}"]
    command += [f"--address=127.0.0.1:{port}", f"--http-address=127.0.0.1:{http}"]
    with (folder / "page.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE):
            while not await is_ready(client, f"http://127.0.0.1:{http}/readyz"):  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.1)
        yield process.pid, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def is_ready(client: aiohttp.ClientSession, url: str) -> bool:
    """Whether the page serves."""
    with contextlib.suppress(aiohttp.ClientError):
        async with client.get(url) as answer:
            return answer.ok
    return False


@dataclass(slots=True)
class Audience:
    """The people who look at the list."""

    api: BareApi
    namespace: str
    names: Sequence[str]
    """The Stacks."""
    process: int
    """The page."""
    url: str
    tokens: Sequence[str]
    """The first is for the person who does not read."""
    say: Say
    servers: Sequence[int]
    """The processes of the control plane."""

    async def measure(self, benchmark: str, changes: int) -> list[Phase]:
        """The phases: opened, at rest, changed."""
        people = [Person(token) for token in self.tokens[1:]]
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as client,
            asyncio.TaskGroup() as group,
            self.without_reader(),
        ):
            start = self.look()
            looking = [group.create_task(person.look(client, self.url)) for person in people]
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(person.is_live.wait() for person in people))
            opened = self.make_phase(benchmark, "opened by everyone at once", start)
            reloads = sum(person.reloads for person in people)
            opened = dataclasses.replace(opened, found={**opened.found, "reloads": reloads})
            self.say(f"everyone has the list after {opened.seconds:.1f} s")
            for problem in sorted({person.problem for person in people if person.problem}):
                self.say(f"the page said: {problem}")
            # The rest of the work that opening the list causes.
            await asyncio.sleep(BETWEEN)
            start = self.look()
            await asyncio.sleep(REST)
            at_rest = self.make_phase(benchmark, f"at rest for {REST:g} s", start)
            start, delays = self.look(), []
            for number in range(changes):
                delays.append(await self.measure_change(self.names[number % len(self.names)], people, number))
                self.say(f"a change reached everyone after {delays[-1]:.2f} s")
                await asyncio.sleep(BETWEEN)
            changed = self.make_phase(benchmark, f"changed {changes} times", start, delays)
            for task in looking:
                task.cancel()
        return [opened, at_rest, changed]

    def look(self) -> tuple[float, float, float, float]:
        """The time, and the CPU until now: of the page, of all processes, and of those that belong to the benchmark."""
        page = usage.read_cpu([self.process])
        known = page + usage.read_cpu([usage.OURSELVES, *self.servers])
        return time.monotonic(), page, usage.read_machine_cpu(), known

    def make_phase(
        self, benchmark: str, name: str, start: tuple[float, float, float, float], delays: Sequence[float] = ()
    ) -> Phase:
        """The figures since the start."""
        seconds, cpu, machine, known = (now - then for now, then in zip(self.look(), start, strict=True))
        found = {"RSS MiB": usage.read_memory(self.process) / 2**20, "CPUs": cpu / seconds}
        if delays:
            found |= figures.describe_times(delays, "until everyone has it")
        return Phase(
            benchmark=benchmark,
            name=name,
            stacks=len(self.names),
            objects=len(self.names),
            seconds=seconds,
            operator_cpu=cpu,
            control_plane_cpu=None,
            others_share=max(0.0, machine - known) / (seconds * (os.cpu_count() or 1)),
            peak_rss=usage.read_peak_memory(self.process),
            requests={},
            found=found,
        )

    @contextlib.asynccontextmanager
    async def without_reader(self) -> AsyncIterator[None]:
        """Follow the updates on a connection that no person reads."""
        host, port = self.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1_024)
        request = f"GET /updates HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.tokens[0]}\r\n\r\n"
        writer.write(request.encode())
        try:
            yield
        finally:
            writer.close()

    async def measure_change(self, name: str, people: Sequence[Person], number: int) -> float:
        """Seconds from a change until the last person has it."""
        mark = f"change-{number}-of-the-benchmark"
        for person in people:
            person.awaited, person.seen_at = mark, None
        began = time.monotonic()
        await write_status(self.api, self.namespace, name, mark)
        async with asyncio.timeout(PATIENCE):
            while any(person.seen_at is None for person in people):  # noqa: ASYNC110 -- people see it one by one
                await asyncio.sleep(0.02)
        return max(person.seen_at for person in people if person.seen_at is not None) - began


BENCHMARKS = (
    Benchmark(
        id="B17",
        work=f"{PEOPLE} users with tokens of their own follow the list of {STACKS:,} Stacks on the page for a team; "
        "CPU and memory of the page",
        measure=measure,
    ),
)
