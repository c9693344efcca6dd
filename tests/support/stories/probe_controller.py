"""The controller of the test kind Probe: makes each probe ready, failing or lingering, as its spec says.

Decides on values only, so both worlds can use it: the fake cluster in virtual time, and a real API server.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from hearth.model.child import Object
from hearth.model.kinds import Kind

GROUP = "testing.hearth.dev"
TTL = "ttlSecondsAfterFinished"
FINALIZER = "testing.hearth.dev/hold"
NEWCOMER = "Newcomer"
CRD_FILE = Path(__file__).parent / "crds" / "probes.testing.hearth.dev.yaml"


def definition(kind: str = "Probe") -> Object:
    """The CustomResourceDefinition of Probe, or of a kind that is a Probe by another name.

    A Newcomer has no status before its controller writes one, like most kinds.
    """
    return copy.deepcopy(load_definition(kind))


@functools.cache
def load_definition(kind: str) -> Object:
    """The same, shared."""
    text = CRD_FILE.read_text()
    loaded: Object = yaml.safe_load(text.replace("Probe", kind).replace("probe", kind.lower()))
    if kind == NEWCOMER:
        del loaded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
    return loaded


def kind_of(name: str = "Probe") -> Kind:
    """The kind that `definition` makes."""
    return Kind(group=GROUP, version="v1", name=name, plural=f"{name.lower()}s", namespaced=True)


def manifest(spec: Object, *, kind: str = "Probe") -> Object:
    """A probe as a template sets it; the player's finalizer holds one with a slow deletion."""
    made: Object = {"apiVersion": f"{GROUP}/v1", "kind": kind, "spec": spec}
    if "deleteAfter" in spec:
        made["metadata"] = {"finalizers": [FINALIZER]}
    return made


class Stage(Protocol):
    """The cluster that the player writes to."""

    async def write_probe_status(self, probe: Object, status: Object) -> None:
        """Merge-patch the status; ignores a deleted probe."""

    async def release_probe(self, probe: Object) -> None:
        """Remove the player's finalizer; ignores a deleted probe."""

    async def expire_probe(self, probe: Object) -> None:
        """Delete exactly this probe; ignores a deleted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """An action on one probe, and its time."""

    after: float
    """Seconds from now."""
    release: bool = False
    expire: bool = False
    status: Object | None = None


def find_cues(probe: Object, *, now: Callable[[], datetime.datetime]) -> list[Cue]:
    """The actions that the current probe asks for."""
    metadata, spec = probe["metadata"], probe.get("spec", {})
    if "deletionTimestamp" in metadata:
        held = FINALIZER in metadata.get("finalizers", ())
        return [Cue(after=spec.get("deleteAfter", 0), release=True)] if held else []
    if spec.get("silent"):
        return []
    end = [Cue(after=spec[TTL], expire=True)] if TTL in spec else []
    if probe.get("status", {}).get("observedGeneration") == metadata["generation"] and is_settled(probe):
        return end
    delay = spec.get("readyAfter", 0)
    final = Cue(after=delay, status=assess(spec, metadata["generation"], is_ready=True, now=now))
    end = [Cue(after=delay + each.after, expire=True) for each in end]
    if delay == 0:
        return [final, *end]
    return [Cue(after=0, status=assess(spec, metadata["generation"], is_ready=False, now=now)), final, *end]


def is_settled(probe: Object) -> bool:
    """Whether the player has finished with this state of the probe."""
    status = probe["status"]
    return bool(status.get("ready") or probe.get("spec", {}).get("fails"))


def assess(spec: Object, generation: int, *, is_ready: bool, now: Callable[[], datetime.datetime]) -> Object:
    """The status of a probe: ready, not yet, or failed with its message."""
    failure = spec.get("fails", "") if is_ready else ""
    ready = is_ready and not failure
    moment = now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def condition(name: str, *, holds: bool, reason: str, message: str) -> Object:
        status = "True" if holds else "False"
        return {"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment}

    word = "Failed" if failure else "Ready" if ready else "Starting"
    text = failure or ("it is ready" if ready else "it is starting")
    return {
        "observedGeneration": generation,
        "ready": ready,
        **({"value": spec.get("value")} if ready else {}),
        "conditions": [
            condition("Ready", holds=ready, reason=word, message=text),
            condition("Stalled", holds=bool(failure), reason=word, message=text),
            *([condition("Complete", holds=ready, reason=word, message=text)] if TTL in spec else []),
        ],
    }


class Player:
    """Simulates the probes it is given; a newer state of a probe replaces the plan for the older one."""

    def __init__(self, stage: Stage, *, now: Callable[[], datetime.datetime]) -> None:
        self._stage = stage
        self._now = now
        self._planned: dict[str, tuple[Any, list[asyncio.Task[None]]]] = {}

    def show(self, probe: Object) -> None:
        """Handle an added or changed probe."""
        metadata = probe["metadata"]
        uid = metadata["uid"]
        subject = (metadata["generation"], "deletionTimestamp" in metadata)
        planned = self._planned.get(uid)
        if planned is not None and planned[0] == subject:
            return
        if planned is not None:
            end(planned[1])
        tasks = [asyncio.ensure_future(self._play(probe, cue)) for cue in find_cues(probe, now=self._now)]
        self._planned[uid] = (subject, tasks)

    def forget(self, uid: str) -> None:
        """Forget a deleted probe."""
        planned = self._planned.pop(uid, None)
        if planned is not None:
            end(planned[1])

    def stop(self) -> None:
        """Stop the simulation."""
        for _, tasks in self._planned.values():
            end(tasks)
        self._planned.clear()

    async def _play(self, probe: Object, cue: Cue) -> None:
        await asyncio.sleep(cue.after)
        if cue.release:
            await self._stage.release_probe(probe)
        elif cue.expire:
            await self._stage.expire_probe(probe)
        elif cue.status is not None:
            await self._stage.write_probe_status(probe, cue.status)


def end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel all planned actions."""
    for task in tasks:
        task.cancel()
