"""The fields of an instance of a StackDefinition, and its spec as a Stack would state it. Programs import it to show one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model.child import Object

OPTIONS: Final = "stack"
"""The field of an instance's spec with the options of a Stack; all others are parameters."""
SECRET: Final = "secretKeyRef"  # noqa: S105 -- the name of a field
"""How the spec of an instance names the value of a sensitive parameter."""


def show_as_stack(spec: Mapping[str, Any]) -> Object:
    """Return the spec of an instance in the form of a Stack, as far as it alone says: without template and defaults.

    A sensitive parameter, of which the spec says only where its value is, is left out.
    """
    options = spec.get(OPTIONS)
    stated = {
        name: value
        for name, value in spec.items()
        if name != OPTIONS and not (isinstance(value, dict) and value.keys() == {SECRET})
    }
    return {**(options if isinstance(options, dict) else {}), "parameters": stated}
