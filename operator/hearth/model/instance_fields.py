"""The fields of a StackDefinition's instance, and its spec in the form of a Stack, for programs that show instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model.child import Object

OPTIONS: Final = "stack"
"""The field of an instance's spec with the options of a Stack; all others are parameters."""
SECRET: Final = "secretKeyRef"  # noqa: S105 -- the name of a field
"""The key that references the value of a sensitive parameter in the spec of an instance."""


def show_as_stack(spec: Mapping[str, Any]) -> Object:
    """Return the spec of an instance in the form of a Stack, without template and defaults.

    Leaves out sensitive parameters, because the spec contains only references to their values.
    """
    options = spec.get(OPTIONS)
    stated = {
        name: value
        for name, value in spec.items()
        if name != OPTIONS and not (isinstance(value, dict) and value.keys() == {SECRET})
    }
    return {**(options if isinstance(options, dict) else {}), "parameters": stated}
