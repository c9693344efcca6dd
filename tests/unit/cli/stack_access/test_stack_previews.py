"""Previews of an instance for users without access to its StackDefinition."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hearth.cli.stack_access import stack_previews
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors
from hearth.model.kinds import Kind

WEB_APP = Kind(group="platform.example", version="v1alpha1", name="WebApp", plural="webapps", namespaced=True)


class Refusing:
    """A session whose user cannot read StackDefinitions."""

    async def get(self, *_: Any) -> Any:
        """Refuse."""
        raise errors.ApiStatusError(code=403, status=None)


def test_the_missing_right_to_a_definition_is_named() -> None:
    stack = StackState({"metadata": {"name": "shop", "namespace": "prod"}, "spec": {}}, WEB_APP)

    with pytest.raises(errors.SourceForbidden, match="you cannot get StackDefinition webapps"):
        asyncio.run(stack_previews.get_form(cast("Session", Refusing()), stack))
