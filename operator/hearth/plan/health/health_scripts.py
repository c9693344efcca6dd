"""Health scripts in Lua that users write, as in Argo CD: their keys in a ConfigMap, and their results.

A script never runs in this process. An evaluator process runs it (`hearth.sandbox.lua_scripts`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
import yaml

from hearth.model import limits, value_class
from hearth.model.errors import Mistake
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    HealthRule,
    HealthRuleEntry,
    HealthState,
    assess_observed,
    entry,
    progressing,
    read,
    unknown,
)
from hearth.template.cel.evaluation import Absent, Answer, ScriptEvaluator, Value
from hearth.template.text import kubectl_yaml

PREFIX: Final = "resource.customizations"
"""Prefix of Argo CD's keys in the ConfigMap. All other keys contain documents of rules."""
HEALTH_PREFIX: Final = f"{PREFIX}.health."
SCRIPT: Final = "health.lua"
EVALUATING: Final = "Evaluating"
FAILED: Final = "HealthScriptFailed"
STATES: Final[Mapping[str, HealthState]] = {
    "Healthy": HealthState.READY,
    "Suspended": HealthState.READY,
    "Progressing": HealthState.PROGRESSING,
    "Degraded": HealthState.FAILED,
    "Missing": HealthState.UNKNOWN,
    "Unknown": HealthState.UNKNOWN,
}
PATHS: Final = ("status", "spec")
"""The parts of an object that a script can read in addition to its identity."""
BOUNDS: Final = kubectl_yaml.Bounds(nodes=limits.RULE_NODES)


@value_class.dataclass(frozen=True, slots=True)
class HealthScript:
    """Script of one kind or pattern, before it is bound to an evaluator."""

    text: str
    owner: str
    """The kind as written, for messages."""

    def __call__(self, fields: Fields, /) -> HealthResult:  # noqa: ARG002 -- a rule takes the fields
        """Return unknown: nothing runs the script."""
        return unknown(FAILED, f"the health script of {self.owner} cannot be run here")


def make_entry(text: str, owner: str) -> HealthRuleEntry:
    """Create the row of a kind with that script."""
    return entry(HealthScript(text, owner), *PATHS)


class ScriptRule:
    """Health rule of one kind by a script."""

    def __init__(self, script: HealthScript, *, scripts: ScriptEvaluator, rule: HealthRule) -> None:
        """rule: the rule for objects that the script has no verdict on."""
        self._script = script
        self._scripts = scripts
        self._general = rule
        self._last: OrderedDict[str, tuple[Any, HealthResult]] = OrderedDict()
        """By UID: the generation of the object and its result."""

    def __call__(self, fields: Fields, /) -> HealthResult:
        """Assess the object. Like other rules, wait until the latest generation is observed or refused."""
        return assess_observed(fields, self._assess)

    def _assess(self, fields: Fields) -> HealthResult:
        """Return the result of the script. While it runs, return the last result for this generation, if any."""
        uid, generation = read(fields, "metadata.uid"), read(fields, "metadata.generation")
        answer = self._scripts.ask_script(self._script.text, dict(fields))
        if answer is None:
            known = self._last.get(uid) if isinstance(uid, str) else None
            last = known[1] if known is not None and known[0] == generation else RUNNING
            return HealthResult(state=last.state, reason=last.reason, message=last.message, is_pending=True)
        verdict = self._interpret(answer, fields)
        if isinstance(uid, str):
            self._last[uid] = generation, verdict
            self._last.move_to_end(uid)
            if len(self._last) > limits.SCRIPT_VERDICTS_KEPT:
                self._last.popitem(last=False)
        return verdict

    def _interpret(self, answer: Answer, fields: Fields) -> HealthResult:
        """Return the health that the answer means."""
        if not isinstance(answer, Value):
            message = "reads a value that is missing" if isinstance(answer, Absent) else answer.message
            return unknown(FAILED, f"health script of {self._script.owner}: {message}")
        verdict = orjson.loads(answer.packed)
        if verdict is None:
            return self._general(fields)
        status, message = verdict
        state = STATES.get(status)
        if state is None:
            return unknown(FAILED, f"health script of {self._script.owner}: {status[:40]!r} is not a health status")
        return HealthResult(state=state, reason=status, message=message)


RUNNING: Final = progressing(EVALUATING, "its health script is being run")


def find_scripts(documents: Mapping[str, str]) -> Iterator[tuple[str, str, str] | Mistake]:
    """Find the scripts in the keys of Argo CD: the kind, text and location of each, or an error.

    Other settings of Argo CD are skipped.
    """
    for key, text in documents.items():
        if key == PREFIX:
            yield from read_map(key, text)
        elif key.startswith(HEALTH_PREFIX):
            group, separator, name = key.removeprefix(HEALTH_PREFIX).rpartition("_")
            if not name or "_" in group or (separator and not group):
                hint = "write resource.customizations.health.<group>_<Kind>, or only the kind in the core group"
                yield Mistake(path=key, message=f"names no kind; {hint}")
            else:
                yield f"{group}/{name}" if group else name, text, key


def read_map(key: str, text: str) -> Iterator[tuple[str, str, str] | Mistake]:
    """Read the map of kinds, whose names may be patterns."""
    try:
        loaded = next(iter(kubectl_yaml.parse_documents(text, BOUNDS)), None)
        value = loaded.value if loaded is not None else {}
    except yaml.YAMLError as error:
        yield Mistake(path=key, message=f"is not valid YAML: {kubectl_yaml.describe(error)}")
        return
    if not isinstance(value, dict):
        yield Mistake(path=key, message="must be a map of kinds, each with health.lua")
        return
    for kind, settings in value.items():
        script = settings.get(SCRIPT) if isinstance(settings, dict) else None
        if isinstance(script, str):
            yield str(kind), script, f"{key}, {kind}"


def is_script_key(key: str) -> bool:
    """Return whether a key of the ConfigMap is one of Argo CD."""
    return key == PREFIX or key.startswith(f"{PREFIX}.")
