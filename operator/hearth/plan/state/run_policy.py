"""Finds objects that run to completion, and decides what happens after they fail, or succeed and are deleted.

The policy depends on the kind, the manifest and well-known status fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from hearth.model import value_class
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.template.blueprint import Completion, ResourceBlueprint

JOB, POD = "Job.batch", "Pod"
PRUNED_KINDS = frozenset(
    {
        "Workflow.argoproj.io",
        "PipelineRun.tekton.dev", "TaskRun.tekton.dev", "CustomRun.tekton.dev",
    }
)  # fmt: skip
"""Kinds that run once and that their controller may prune because of its own settings, which are not visible in any
object."""
LIFETIME_FIELDS = frozenset(
    {
        "ttlSecondsAfterFinished", "ttlSecondsAfterCompletion", "ttlSecondsAfterCompleted", "ttlSecondsAfterSucceed",
        "ttlSecondsAfterSucceeded", "ttlAfterFinished", "ttlStrategy", "timeToLiveSeconds",
    }
)  # fmt: skip
"""Fields of a spec that let an object expire once it has finished."""
RESTARTS_NOT = frozenset({"Never", "OnFailure"})
"""Restart policies of Pods that run to completion. The Pod garbage collector deletes such Pods some time later."""
ENDLESS_KINDS = frozenset(
    {
        "ConfigMap", "Secret", "Service", "ServiceAccount", "Namespace", "PersistentVolumeClaim", "Deployment.apps",
        "StatefulSet.apps", "DaemonSet.apps", "ReplicaSet.apps", "CronJob.batch", "Ingress.networking.k8s.io",
        "Stack.hearth.dev", "ResourceGroup.hearth.dev",
    }
)  # fmt: skip
"""Kinds whose objects never finish."""
DONE_CONDITIONS = frozenset({"complete", "completed", "succeeded", "finished"})
DONE_WORDS = frozenset({"complete", "completed", "succeed", "succeeded", "finished", "done"})
STATE_FIELDS = ("phase", "state", "status")
"""Status fields that describe the progress of an object in one word."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """How to treat an object that runs to completion."""

    is_once: bool
    """Whether it stays finished when its object is deleted."""
    is_stated: bool = False
    """Whether the resource sets `completion`."""
    limit: int | None = None
    """Automatic retries after a failure; None: no limit."""
    max_backoff: float | None = None
    """Maximum seconds between two runs; None: the setting of the Stack."""


def find(resource: ResourceBlueprint, kind: Kind, manifest: Mapping[str, Any]) -> RunPolicy | None:
    """Return how to treat the objects of a resource, or None if they keep running, as most objects do."""
    stated, retry = resource.completion, resource.retry
    if not (stated or retry or is_run(kind.key, manifest)):
        return None
    return RunPolicy(
        is_once=stated is Completion.ONCE or (stated is None and has_own_lifetime(kind.key, manifest)),
        is_stated=stated is not None,
        limit=retry.limit if retry is not None else None,
        max_backoff=retry.max_backoff if retry is not None else None,
    )


def is_run(kind: str, manifest: Mapping[str, Any]) -> bool:
    """Return whether an object runs to completion. kind: its key, `Job.batch`."""
    return kind == JOB or has_own_lifetime(kind, manifest)


def has_own_lifetime(kind: str, manifest: Mapping[str, Any]) -> bool:
    """Return whether a finished object expires automatically, or might expire."""
    if kind in PRUNED_KINDS:
        return True
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return False
    if kind == POD:
        return spec.get("restartPolicy") in RESTARTS_NOT
    return not LIFETIME_FIELDS.isdisjoint(spec)


def find_warnings(resources: Iterable[ResourceBlueprint]) -> Iterator[str]:
    """Find valid but probably unintended completion settings in the constant parts of resources."""
    seen: set[str] = set()
    for resource in resources:
        if resource.completion is None or resource.constant is None or resource.path in seen:
            continue
        seen.add(resource.path)
        group, kind = resource.api_version.rpartition("/")[0], resource.kind
        key = f"{kind}.{group}" if group else kind
        goes = has_own_lifetime(key, orjson.loads(resource.constant)[0])
        if resource.completion is Completion.RERUN and goes:
            yield (
                f"{resource.path}.completion: is Rerun, but this {kind} is deleted automatically after it finishes, so it is run "
                f"again and again; omit completion, or remove its limited lifetime from the manifest"
            )
        if resource.completion is Completion.ONCE and key in ENDLESS_KINDS:
            yield f"{resource.path}.completion: is Once, but a {kind} never finishes, so it is not recreated if deleted; omit it"


def has_finished(child: Child, run: RunPolicy) -> bool:
    """Return whether a ready object has also finished, according to its status.

    If the resource sets `completion`, an object whose status does not report that has finished as soon as it is ready.
    """
    return says_done(child.fields) or (run.is_stated and child.kind.key not in {JOB, POD})


def says_done(fields: Mapping[str, Any]) -> bool:
    """Return whether the status of an object means that its work has succeeded."""
    status = fields.get("status")
    if not isinstance(status, dict):
        return False
    if any(_is_word(status.get(field), DONE_WORDS) for field in STATE_FIELDS):
        return True
    conditions = status.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return any(
        isinstance(each, dict) and each.get("status") == "True" and _is_word(each.get("type"), DONE_CONDITIONS)
        for each in found
    )


def _is_word(value: Any, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value.lower() in words
