"""The objects that a definition is read from besides the Stack: their kinds, and what they contain. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hearth.model import names
from hearth.model.kinds import Kind, ObjectRef

CONFIG_MAP: Final = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
SECRET: Final = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
STACK_TEMPLATE: Final = Kind(
    group=names.GROUP, version=names.VERSION, name="StackTemplate", plural="stacktemplates", namespaced=False
)
KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in (CONFIG_MAP, SECRET, STACK_TEMPLATE)}
TEMPLATE_KEY: Final = "spec.template"
"""Where a StackTemplate has the template, as a ConfigMap has it at a key of its data."""


def find_data(raw: Mapping[str, Any], kind: str) -> Mapping[str, str]:
    """Return the data of an object of that kind; of a StackTemplate the template as JSON, at `TEMPLATE_KEY`."""
    if kind != STACK_TEMPLATE.name:
        return raw.get("data") or {}
    template = (raw.get("spec") or {}).get("template")
    return {} if template is None else {TEMPLATE_KEY: orjson.dumps(template).decode()}


def is_shared(ref: ObjectRef) -> bool:
    """Return whether Stacks of every namespace may read the source."""
    return ref.kind == STACK_TEMPLATE.name


def make_template_ref(name: str) -> ObjectRef:
    """Return the reference to a StackTemplate."""
    return ObjectRef(group=STACK_TEMPLATE.group, kind=STACK_TEMPLATE.name, namespace="", name=name)
