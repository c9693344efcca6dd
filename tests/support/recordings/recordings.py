"""The objects of each released version, as they were on a real API server: `tests/recordings/<version>/objects.yaml`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from hearth.model import names
from hearth.model.child import Object
from support import repository

FOLDER: Final = repository.TESTS / "recordings"
NAMESPACE: Final = "recorded"
"""The namespace of all recordings. Signatures contain it, so it must be the same wherever a recording is used."""
KEY: Final = "hearth-hash-key"
NOT_STORED: Final = ("resourceVersion", "selfLink")


WRITTEN: Final = FOLDER / "written"
"""Recordings whose objects a later version writes once."""

WRITTEN_ONCE: Final[Mapping[str, Sequence[str]]] = {
    "Secret with `stringData`": ("change secret/texts-login", "apply secret/texts-login"),
    "object whose template sets fields that others compute": (
        "apply persistentvolumeclaim/computed-claim",
        "apply deployment/computed-counted",
    ),
    "nested Stack whose parent has an old `hearth.dev/retry`": ("apply stack/retried-inner",),
    "object that a Stack adopted": (),
    "object with a longer name than Hearth now generates for its kind": (),
    "Job, or other work that runs once": (),
    "any other object": (),
}
"""The expected writes in order, by row of the table in docs/upgrading.md."""
WRITES: Final = frozenset({"apply", "change", "create", "delete", "release", "mark", "revision"})
"""Verbs that write objects; statuses are compared separately."""
TOLD_IN: Final = frozenset({"texts", "computed", "retried", "retried-inner"})
"""The Stacks whose status reports these writes."""


def list_versions(folder: Path = FOLDER) -> Sequence[Path]:
    """Return the folders of all recorded versions."""
    return sorted(path.parent for path in folder.glob("*/objects.yaml"))


def load(folder: Path) -> list[Object]:
    """Return the objects of a version, owners first."""
    with (folder / "objects.yaml").open() as file:
        found: list[Object] = list(yaml.load_all(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return sorted(found, key=lambda raw: raw["kind"] not in names.STACK_KINDS)


def find_key(objects: Sequence[Object]) -> bytes:
    (secret,) = (raw for raw in objects if raw["kind"] == "Secret" and raw["metadata"]["name"] == KEY)
    return base64.b64decode(secret["data"]["key"])


def clean(raw: Object) -> Object:
    """Return an object without fields that the API server sets."""
    metadata = {key: value for key, value in raw["metadata"].items() if key not in NOT_STORED}
    return {**raw, "metadata": metadata}


def mask_words(value: Any) -> Any:
    """Return an object without parts that a later version may change once: texts of messages, and the version
    itself.
    """
    if isinstance(value, list):
        return [mask_words(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    masked = ("message", "managedFields", *NOT_STORED)
    return {key: mask_words(inner) for key, inner in value.items() if key not in masked}


def list_steps(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield each step of the scenario: an object, and the condition for the next step."""
    yield from yaml.safe_load((folder / "scenario.yaml").read_text())


def is_reached(raw: Object | None, expected: Mapping[str, Any]) -> bool:
    """Return whether the status describes the current generation, with that phase or condition."""
    if raw is None:
        return False
    status = raw.get("status") or {}
    if status.get("observedGeneration") != raw["metadata"]["generation"]:
        return False
    if "phase" in expected:
        return bool(status.get("phase") == expected["phase"])
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return conditions.get(expected["condition"]) == "True"
