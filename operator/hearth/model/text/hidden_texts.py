"""The sensitive values of each Stack, which are redacted in Events, statuses and logs.

A message of another program, for example a webhook's rejection, may quote any of them. It is therefore redacted where
it is written, by the Stack that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from hearth.model.child import Object
from hearth.model.text import redaction


class HiddenTexts(Protocol):
    """Provides the sensitive values of one Stack."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Texts that no user-visible output may contain."""


_BY_STACK: WeakValueDictionary[str, HiddenTexts] = WeakValueDictionary()
"""By UID, and by `kind:namespace/name`.

Global, because the log is global, and a log line has either the UID or the name.
"""
_BY_PREVIEW: WeakValueDictionary[str, HiddenTexts] = WeakValueDictionary()
"""The same of the definition in a preview of the Stack, which takes the place of no running one."""
_KINDS: set[str] = set()
"""The kinds in these keys: an instance of another kind may have the name of a Stack."""
_NAMES: WeakKeyDictionary[HiddenTexts, tuple[str, str]] = WeakKeyDictionary()
"""The kind and `namespace/name` of each Stack."""
OWN_FIELDS = ("event", "timestamp", "level", "logger", "stack")
"""The fields of a log line that only Hearth writes."""


def register(hidden_texts: HiddenTexts, *, uid: str, kind: str, name: str, is_preview: bool = False) -> None:
    """Redact texts about a Stack with the values in `hidden_texts`, as long as that object exists. name:
    `namespace/name`.

    is_preview: whether the values are those of a preview, and those of the running definition count as well.
    """
    _KINDS.add(kind)
    _NAMES[hidden_texts] = (kind, name)
    registry = _BY_PREVIEW if is_preview else _BY_STACK
    registry[uid] = registry[f"{kind}:{name}"] = hidden_texts


def redact(text: str, stack: str) -> str:
    """Return a text about a Stack without its sensitive values. stack: its UID, or `namespace/name`."""
    for registry in (_BY_STACK, _BY_PREVIEW):
        for key in (stack, *(f"{kind}:{stack}" for kind in _KINDS)) if registry else ():
            if (source := registry.get(key)) is not None:
                text = redaction.redact(text, source.hidden_texts)
    return text


def redact_messages(status: Mapping[str, Any], stack: str) -> Object:
    """Return a status with redacted messages. Other fields come from the operator itself and may be signed."""
    return {key: _redact_message(key, value, stack) for key, value in status.items()}


def _redact_message(key: str, value: Any, stack: str) -> Any:
    match value:
        case str() if key == "message":
            return redact(value, stack)
        case dict():
            return redact_messages(value, stack)
        case list():
            return [_redact_message(key, inner, stack) for inner in value]
    return value


def redact_log(_logger: Any, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Redact one log line, and replace the UID of its Stack by kind and name; for structlog."""
    stack = entry.get("stack")
    if isinstance(stack, str):
        for key, value in entry.items():
            if isinstance(value, str) and key not in OWN_FIELDS:
                entry[key] = redact(value, stack)
        if (source := _BY_STACK.get(stack) or _BY_PREVIEW.get(stack)) is not None:
            entry["stack_kind"], entry["stack"] = _NAMES[source]
    return entry
