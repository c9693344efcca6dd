"""The port `Evaluations` for stories: every expression is evaluated at once, in the calling process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from hearth.engine.services import Unassisted
from hearth.sandbox import lua_scripts
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Answer, Failure, Value


class InProcess(Unassisted):
    """See the port; has no limits."""

    def admits(self, cost: Cost) -> bool:
        """At any cost."""
        return True

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """The verdict of a health script, at once."""
        try:
            return Value(orjson.dumps(lua_scripts.get_runtime().judge(text, data)))
        except lua_scripts.ScriptFailure as failure:
            return Failure(str(failure))
