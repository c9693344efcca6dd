"""A story as a value: the format of tests/stories/*.yaml, read and checked. tests/stories/README.md describes it."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hearth.model import names
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from support import repository
from support.stories import deployment_controller, probe_controller

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader written in C, if PyYAML was built with it, because every process of a test run reads all stories."""
FOLDER = repository.TESTS / "stories"
STACK_NAME = "shop"
EXPECTATIONS = frozenset(
    {"phase", "ready", "reconciling", "stalled", "reason", "message", "problems", "summary", "revision", "outputs"}
    | {"exist", "objects", "same", "new", "gone", "others", "requests", "events", "stack", "nothing-left", "conditions"}
    | {"counts", "plans"}
)
ACTIONS = frozenset(
    {"apply", "edit", "remove", "tamper", "delete-object", "delete-stack", "fail", "recover", "restart-controller"}
    | {
        "scale",
        "contend",
        "harass",
        "deny",
        "grant",
        "stop-controller",
        "start-controller",
        "wait",
        "create-kind",
        "delete-kind",
        "create-object",
        "delete-other",
        "change-other",
        "delete-revisions",
        "annotate",
        "decide",
        "hold-events",
        "release-events",
        "cluster-away",
        "cluster-back",
    }
)
WORDS = frozenset({"stack", "group", "expect", "until", "patience"})
DURATION = re.compile(r"(\d+)(s|m)")
KIND = re.compile(r"\b[A-Z][A-Za-z]+\b")
SHORT_FORMS = {
    "probe": "Probe",
    "latecomer": "Latecomer",
    "newcomer": "Newcomer",
    "config": "ConfigMap",
    "deployment": "Deployment",
}
SECONDS = {"s": 1, "m": 60}
HOUR = 3600.0
WINDOWS = {"closed": 3 * HOUR, "open": -HOUR / 2}
"""The seconds until a window begins, by its short form."""


class BadStory(ValueError):
    """A story file violates the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A user's action, and the expected result."""

    action: str
    what: Any
    """The arguments of the action in the file."""
    stack: str
    """The name of the Stack or ResourceGroup in the step."""
    kind: str = names.STACK
    until: Mapping[str, Any] | None = None
    """Continue as soon as this is true, even during an update; None to continue at rest."""
    expect: Mapping[str, Any] = field(default_factory=dict)
    patience: float = 0.0
    """Extra seconds after the world is at rest, for the next retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    title: str
    slug: str
    """The file's name."""
    steps: tuple[Step, ...]
    kinds: frozenset[str] = frozenset()
    """The names of all kinds whose objects may occur in the story, and possibly of others."""
    clusters: tuple[str, ...] = ()
    """The other clusters. Each has a Secret with the same name that contains its kubeconfig."""
    tenancy: Mode = Mode.ISOLATED
    """The tenancy of its operator."""
    needs: frozenset[str] = frozenset()
    """`fake`: played only on the fake cluster; `whole`: by one operator for all Stacks. The file gives the reason."""

    @property
    def stacks(self) -> Mapping[str, str]:
        """The kinds of all Stacks and groups in it by name, in order."""
        return {step.stack: step.kind for step in self.steps}

    @property
    def has_plans(self) -> bool:
        """Whether changes in it may need an approval."""
        return any(step.action == "decide" or "plans" in step.expect for step in self.steps)

    @property
    def counts_each_failure(self) -> bool:
        """Whether one more refused write changes the story, because it reaches the number of failures that fail a
        resource.
        """
        specs = (step.what for step in self.steps if step.action in ("apply", "edit") and isinstance(step.what, dict))
        return any((spec.get("retry") or {}).get("limit", 2) < 2 for spec in specs)


@functools.cache
def load_all(folder: Path = FOLDER) -> tuple[Story, ...]:
    """Every story, by the names of the files."""
    return tuple(load(path) for path in sorted(folder.glob("*.yaml")))


def load(path: Path) -> Story:
    """One story. Raises BadStory."""
    text = path.read_text()
    raw = yaml.load(text, Loader=LOADER)  # noqa: S506 -- it is the safe one
    unknown = raw.keys() - {"story", "steps", "why", "only", "clusters", "tenancy"}
    if unknown or not raw.get("steps"):
        raise BadStory(f"{path.name}: unknown keys {sorted(unknown)}, or no steps")
    steps = tuple(parse_step(step, where=f"{path.name}, step {number}") for number, step in enumerate(raw["steps"], 1))
    return Story(
        title=raw["story"],
        slug=path.stem,
        steps=steps,
        kinds=find_kinds(text),
        clusters=tuple(raw.get("clusters", ())),
        tenancy=Mode(raw.get("tenancy", Mode.ISOLATED)),
        needs=frozenset(raw.get("only", ())),
    )


def find_kinds(text: str) -> frozenset[str]:
    """Every word of a story that may be a kind, and the kinds of its short forms."""
    return frozenset(KIND.findall(text)) | {kind for word, kind in SHORT_FORMS.items() if word in text}


def parse_step(raw: Mapping[str, Any], *, where: str) -> Step:
    """One step. Raises BadStory."""
    actions = raw.keys() - WORDS
    if len(actions) != 1 or not actions <= ACTIONS:
        raise BadStory(f"{where}: needs exactly one action of {sorted(ACTIONS)}, found {sorted(actions)}")
    for part in ("expect", "until"):
        unknown = (raw.get(part) or {}).keys() - EXPECTATIONS
        if unknown:
            raise BadStory(f"{where}: unknown expectations {sorted(unknown)}; known are {sorted(EXPECTATIONS)}")
    action = actions.pop()
    return Step(
        action=action,
        what=raw[action],
        stack=raw.get("group", raw.get("stack", STACK_NAME)),
        kind=names.GROUP_KIND if "group" in raw else names.STACK,
        until=raw.get("until"),
        expect=raw.get("expect") or {},
        patience=parse_duration(raw.get("patience", "0s")),
    )


def parse_duration(text: str) -> float:
    """The seconds that `30s` or `5m` means. Raises BadStory."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise BadStory(f"{text!r} is no duration like 30s or 5m")
    return int(found[1]) * SECONDS[found[2]]


def set_window(spec: Object, *, now: float) -> Object:
    """The spec with the times of `window: closed`, which opens in three hours for an hour, or of `window: open`."""
    if (begin := WINDOWS.get(str(spec.get("window")))) is None:
        return spec
    opening, closing = (now + begin, now + begin + HOUR)
    times = (datetime.datetime.fromtimestamp(each, tz=datetime.UTC).strftime("%H:%M") for each in (opening, closing))
    return {**spec, "window": dict(zip(("from", "to"), times, strict=True))}


def expand(spec: Mapping[str, Any]) -> Object:
    """A Stack's spec with the short forms of manifests written out."""
    if "template" not in spec:
        return dict(spec)
    if "resources" not in spec["template"] and spec["template"].keys() & {"manifest", *SHORT_FORMS}:
        # A group has one resource.
        return {**spec, "template": expand_resource("member", spec["template"])}
    resources = spec["template"].get("resources") or {}
    expanded = {name: expand_resource(name, resource) for name, resource in resources.items()}
    return {**spec, "template": {**spec["template"], "resources": expanded}}


def expand_resource(name: str, resource: Mapping[str, Any]) -> Object:
    """A resource in a short form, for example `probe:`, written out as its manifest."""
    rest = {key: value for key, value in resource.items() if key not in SHORT_FORMS}
    if "deployment" in resource:
        return {"manifest": deployment_controller.manifest(name, resource["deployment"] or {}), **rest}
    if "probe" in resource:
        return {"manifest": probe_controller.manifest(resource["probe"]), **rest}
    for form in ("latecomer", "newcomer"):
        if form in resource:
            return {"manifest": probe_controller.manifest(resource[form], kind=SHORT_FORMS[form]), **rest}
    if "config" in resource:
        return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": resource["config"]}, **rest}
    return rest


def edit(spec: Any, change: Any) -> Any:
    """`spec` with a change merged into it: maps are merged, null removes, and other values replace."""
    if not isinstance(change, dict):
        return change
    edited = dict(spec) if isinstance(spec, dict) else {}
    for key, inner in change.items():
        if inner is None:
            edited.pop(key, None)
        else:
            edited[key] = edit(edited.get(key), inner)
    return edited
