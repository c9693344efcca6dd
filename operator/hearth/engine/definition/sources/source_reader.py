"""Reads of a Stack's sources as the account of the Stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hearth.engine.ports import ManagementCluster
from hearth.model import value_class, well_known_kinds
from hearth.model.errors import ApiStatusError, SourceForbidden
from hearth.model.kinds import ObjectRef
from hearth.model.tenancy import Boundary


class Read(Protocol):
    """One way to read a source."""

    async def __call__(self, ref: ObjectRef, /, *, user: str) -> Mapping[str, str]:
        """Return its data."""


@value_class.dataclass(frozen=True, slots=True)
class SourceReader:
    """The reader of one Stack's sources."""

    management_cluster: ManagementCluster
    boundary: Boundary | None = None
    """Of the Stack; None for the operator's own account."""

    async def get_source(self, ref: ObjectRef, *, place: str) -> Mapping[str, str]:
        """Return the data of a source. place: where the definition names it.

        Raises SourceForbidden if the account may not read it, otherwise ApiStatusError or Unreachable.
        """
        return await self._read(self.management_cluster.get_source, ref, place)

    async def get_binary_data(self, ref: ObjectRef, *, place: str) -> Mapping[str, str]:
        """Return the binary data of a ConfigMap, in base64. Raises as `get_source` does."""
        return await self._read(self.management_cluster.get_binary_data, ref, place)

    async def _read(self, read: Read, ref: ObjectRef, place: str) -> Mapping[str, str]:
        try:
            return await read(ref, user=self._find_user(ref))
        except ApiStatusError as error:
            if not error.is_forbidden:
                raise
            raise SourceForbidden(f"{place}: {ref} {self._explain(ref)}") from error

    def _find_user(self, ref: ObjectRef) -> str:
        """Return whom a source is read as; "" for the operator, which reads StackTemplates for every Stack."""
        return "" if self.boundary is None or well_known_kinds.is_shared_source(ref) else self.boundary.user

    def _explain(self, ref: ObjectRef) -> str:
        found = (
            "cannot be read"
            if well_known_kinds.is_shared_source(ref)
            else f"cannot be read in namespace {ref.namespace}"
        )
        if well_known_kinds.is_shared_source(ref) or self.boundary is None or not self.boundary.account:
            return f"{found}; allow the operator to get, list and watch it"
        account, resource = self.boundary.account, f"{ref.kind.lower()}s"
        role, within = f"{account}-{ref.name}", f"--namespace={ref.namespace}"
        return (
            f"{found} by ServiceAccount {account}; grant it: kubectl create role {role} --verb=get --resource={resource} "
            f"--resource-name={ref.name} {within} && kubectl create rolebinding {role} --role={role} "
            f"--serviceaccount={self.boundary.account_namespace}:{account} {within}"
        )
