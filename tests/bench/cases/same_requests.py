"""The denominator for many small Stacks: a bare loop that sends the same requests as the user and the operator do.

It decides nothing, and waits only for responses. If the number of statuses or Events varies with timing, this loop
sends the smaller number, so the ceiling is rather too high than too low.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from bench.cases import ceiling
from bench.cases.ceiling import ReadCpu
from bench.instruments import bare_api, user
from bench.instruments import workload as workload_module
from bench.instruments.bare_api import BareApi
from bench.instruments.figures import Ceiling
from bench.instruments.workload import Target, Workload
from hearth.engine.cluster_objects import Revision
from hearth.kube.cache import stack_cache
from hearth.kube.client import api_requests
from hearth.kube.objects import controller_revision, event_recorder
from hearth.kube.objects.event_recorder import EventContent
from hearth.model import names, well_known_kinds
from hearth.model.child import Object
from hearth.model.well_known_kinds import CONTROLLER_REVISION, STACK

TIMESTAMP = "2026-01-01T00:00:00Z"
SAMPLE = 250
"""A number of Stacks that is enough to measure the rate; all would take as long as the benchmark itself."""
CONDITIONS = ("Ready", "Reconciling", "Stalled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Stack with its children, before the change and after it."""

    stack: Object
    first: Sequence[Target]
    second: Sequence[Target]


async def measure(api: BareApi, workload: Workload, *, namespace: str, read_cpu: ReadCpu) -> Ceiling:
    """The pace of creating, changing and deleting Stacks with all that belongs to them, in children a second."""
    sample = dataclasses.replace(workload, stacks=min(SAMPLE, workload.stacks))
    parts, objects = list(make_parts(sample, namespace)), sample.objects

    async def create(part: Part) -> None:
        await create_stack(api, part)

    async def change(part: Part) -> None:
        await change_stack(api, part)

    async def delete(part: Part) -> None:
        await delete_stack(api, part)

    return Ceiling(
        created=await ceiling.find_pace(parts, create, read_cpu, objects=objects),
        changed=await ceiling.find_pace(parts, change, read_cpu, objects=objects),
        deleted=await ceiling.find_pace(parts, delete, read_cpu, objects=objects),
    )


def make_parts(workload: Workload, namespace: str) -> Iterator[Part]:
    """Every Stack with its objects."""
    size = workload.objects // workload.stacks
    first, second = (workload.make_children(namespace, value=value) for value in ("one", "two"))
    for number, stack in enumerate(workload.make_stacks(namespace)):
        its = slice(number * size, (number + 1) * size)
        yield Part(stack=stack, first=first[its], second=second[its])


async def create_stack(api: BareApi, part: Part) -> None:
    """The user's request, up to four more about the Stack, and one for each child.

    One status: the operator does not report progress of a Stack that completes within a second.
    """
    namespace = part.stack["metadata"]["namespace"]
    answer = await api.send("POST", api_requests.collection_path(STACK, namespace), body=part.stack)
    if names.FINALIZER not in stack_cache.parse_stack(orjson.loads(answer)).finalizers:
        answer = await put_finalizers(api, part, [names.FINALIZER])
    await put_revision(api, part, answer, number=1)
    for child in part.first:
        await api.apply(child.path, child.manifest)
    await put_status(api, part, number=1, is_ready=True)
    event = make_event(answer)
    await api.send("POST", api_requests.collection_path(well_known_kinds.EVENT, namespace), body=event)


async def change_stack(api: BareApi, part: Part) -> None:
    """The user's request, a revision, one request per child, and the status."""
    change = workload_module.make_change("two")
    answer = await api.send("PATCH", user.path_of(part.stack), body=change, content_type=bare_api.MERGE)
    await put_revision(api, part, answer, number=2)
    for child in part.second:
        await api.apply(child.path, child.manifest)
    await put_status(api, part, number=2, is_ready=True)


async def delete_stack(api: BareApi, part: Part) -> None:
    """The user's request, one request per child, a list of each kind, and the removed finalizer."""
    await api.send("DELETE", user.path_of(part.stack))
    await put_status(api, part, number=2, is_ready=False)
    for child in reversed(part.second):
        await api.send("DELETE", f"{child.path}?propagationPolicy=Background")
    for collection in dict.fromkeys(child.path.rpartition("/")[0] for child in part.second):
        await api.send("GET", f"{collection}?labelSelector={names.LABEL_STACK_UID}%3D0")
    await put_finalizers(api, part, [])


async def put_finalizers(api: BareApi, part: Part, finalizers: list[str]) -> bytes:
    """Write the Stack with these finalizers."""
    change = {"metadata": {"finalizers": finalizers}}
    return await api.send("PATCH", user.path_of(part.stack), body=change, content_type=bare_api.MERGE)


async def put_revision(api: BareApi, part: Part, answer: bytes, *, number: int) -> None:
    """Store the definition of a Stack that was just sent."""
    stack = stack_cache.parse_stack(orjson.loads(answer))
    kinds = frozenset({"v1/ConfigMap", "v1/ServiceAccount"})
    # The revision of an earlier Stack with the same name may still wait for the garbage collector.
    revision = Revision(name=f"{stack.name}-{stack.uid}-{number}", number=number, hash=f"{number:040}", kinds=kinds)
    spec = part.stack["spec"]
    definition = {"template": spec["template"], "parameters": spec["parameters"]}
    path = api_requests.collection_path(CONTROLLER_REVISION, stack.namespace)
    await api.send("POST", path, body=controller_revision.make_objects(stack, revision, definition)[-1])


async def put_status(api: BareApi, part: Part, *, number: int, is_ready: bool) -> None:
    """A status like the operator's."""
    status = make_status(len(part.first), number=number, is_ready=is_ready)
    path = f"{user.path_of(part.stack)}/status"
    await api.send("PATCH", path, body={"status": status}, content_type=bare_api.MERGE)


def make_status(children: int, *, number: int, is_ready: bool) -> Object:
    """The operator's status for a Stack in progress or complete."""
    counts = dict.fromkeys(("failed", "obsolete", "progressing", "ready", "waiting"), 0)
    return {
        "phase": "CreateComplete" if is_ready else "CreateInProgress",
        "observedGeneration": number,
        "revision": number,
        "lastCompletedRevision": number if is_ready else None,
        "target": {"cause": "Spec", "completed": is_ready, "revision": number, "since": TIMESTAMP},
        "controllerState": {"initial": True},
        "conditions": [make_condition(name, number, is_ready=is_ready) for name in CONDITIONS],
        "resources": {**counts, "total": children, "ready" if is_ready else "waiting": children},
        "summary": f"{children if is_ready else 0}/{children}",
        "problems": [],
        "outputs": {},
    }


def make_condition(name: str, generation: int, *, is_ready: bool) -> Object:
    return {
        "type": name,
        "status": str(is_ready is (name == "Ready")),
        "reason": "Complete" if is_ready else "InProgress",
        "message": "all 4 resources are ready" if is_ready else "none of 4 resources is ready",
        "observedGeneration": generation,
        "lastTransitionTime": TIMESTAMP,
    }


def make_event(answer: bytes) -> Object:
    """The Event that reports it."""
    stack = stack_cache.parse_stack(orjson.loads(answer))
    said = EventContent(type_="Normal", reason="Complete", message="all 4 resources are ready")
    return event_recorder.make_event(
        event_recorder.about_stack(stack), event_recorder.event_name(stack, said), said, TIMESTAMP
    )
