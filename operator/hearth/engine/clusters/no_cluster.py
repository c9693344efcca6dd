# ruff: noqa: ARG002 -- each parameter is the port's, and none matters here
"""The port `WorkloadCluster` while the cluster of a Stack is unknown or was never reached: no kinds, no children."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from hearth.engine.ports import WorkloadCluster
from hearth.model.child import Child, Object, Path
from hearth.model.errors import Unreachable
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalQuery, ExternalView
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.retry.retry_triggers import RetryTrigger


class NoKinds:
    """No kind is served."""

    generation = 0

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return None."""
        return None

    def all(self) -> Collection[Kind]:
        """Return none."""
        return ()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return None."""
        return None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Return None."""
        return None


class NoCluster:
    """Sends nothing: every request raises `Unreachable`."""

    kinds: Kinds = NoKinds()

    def acting_as(self, user: str) -> Self:
        """Return itself."""
        return self

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Do nothing: there are no kinds."""

    async def refresh_kinds(self) -> None:
        """Do nothing, likewise."""

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """Return False."""
        return False

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """Return ""."""
        return ""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """Return True: there is nothing to wait for."""
        return True

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return none."""
        return {}

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return none."""
        return ()

    def follow_externals(self, stack_uid: str, queries: Mapping[str, ExternalQuery], *, namespace: str) -> None:
        """Do nothing: there is nothing to read."""

    def find_external(self, stack_uid: str, name: str) -> ExternalView:
        """Return that nothing is known."""
        return UNKNOWN_VIEW

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Raise `Unreachable`."""
        raise _away()

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """Raise `Unreachable`."""
        raise _away()

    async def check_definition(self, manifest: Object, *, kind: Kind) -> None:
        """Raise `Unreachable`."""
        raise _away()

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> Object:
        """Raise `Unreachable`."""
        raise _away()

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Raise `Unreachable`."""
        raise _away()

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """Raise `Unreachable`."""
        raise _away()

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """Raise `Unreachable`."""
        raise _away()

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """Raise `Unreachable`."""
        raise _away()

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Raise `Unreachable`."""
        raise _away()

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """Raise `Unreachable`."""
        raise _away()

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """Raise `Unreachable`."""
        raise _away()

    async def release(self, child: Child) -> None:
        """Raise `Unreachable`."""
        raise _away()

    async def mark(self, child: Child, reason: str | None) -> Child | None:
        """Raise `Unreachable`."""
        raise _away()

    async def list_children(
        self, kind: Kind, stack_uid: str, *, namespace: str = "", whole: bool = False
    ) -> list[Child]:
        """Raise `Unreachable`."""
        raise _away()

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Raise `Unreachable`."""
        raise _away()

    async def may(self, verb: str, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Raise `Unreachable`."""
        raise _away()

    async def is_kind_going(self, kind: Kind) -> bool:
        """Raise `Unreachable`."""
        raise _away()

    async def list_pods(self, namespace: str, *, labels: str) -> list[Object]:
        """Raise `Unreachable`."""
        raise _away()

    async def get_log_end(self, ref: ObjectRef, *, container: str, limit: int) -> str:
        """Raise `Unreachable`."""
        raise _away()

    def watch_trigger(self, trigger: RetryTrigger) -> None:
        """Do nothing: the return of the cluster reports itself."""

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """Do nothing, likewise."""


def _away() -> Unreachable:
    return Unreachable("the cluster of the Stack is not known yet")


NO_CLUSTER: Final[WorkloadCluster] = NoCluster()
