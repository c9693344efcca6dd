"""Sessions with the other clusters that Stacks name, by the kubeconfigs in their Secrets, as far as the user may read those.

A Secret of a tenant is hostile input: the rules and bounds are those of the operator. No program is run for a login, no file
is read, and an address of the user's own machine is refused unless the home cluster is there too.
"""

from __future__ import annotations

import base64
import binascii
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hearth.cli import object_fields
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.engine import cluster_objects
from hearth.kube.auth import inline_kubeconfig, network_addresses
from hearth.model import errors
from hearth.model.well_known_kinds import SECRET

if TYPE_CHECKING:
    from hearth.kube.remote.remote_cluster import RemoteConnection

HIDDEN: Final = "its objects are in another cluster, which spec.kubeConfig names"


class ClusterHidden(errors.HearthError):
    """The other cluster cannot be looked into; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSession:
    """A session with another cluster."""

    session: Session
    namespace: str
    """The only one that may be read; "" for all."""


@dataclass(slots=True)
class OtherClusters:
    """The sessions of one command. One is opened for each kubeconfig."""

    home: Session
    _open: dict[str, OtherSession] = field(default_factory=dict)
    _connections: list[RemoteConnection] = field(default_factory=list)

    async def find(self, stack: StackState) -> OtherSession:
        """Return the session with the cluster of a Stack that has one. Raises ClusterHidden."""
        text = await self._read_kubeconfig(stack)
        try:
            config = inline_kubeconfig.parse(text, allows_loopback=self._is_local(), owner=stack.namespace)
            config.check_keys()
        except errors.KubeconfigRefused as refused:
            raise ClusterHidden(f"{HIDDEN}, and its kubeconfig is refused: {refused}") from refused
        found = self._open.get(config.key)
        if found is None:
            # It imports the client of untrusted servers, which few commands need.
            from hearth.kube.remote.remote_cluster import RemoteConnection
            from hearth.kube.remote.tenant_share import TenantShares

            share = TenantShares(is_guarded=not self._is_local()).find(stack.namespace)
            connection = RemoteConnection(config, share)
            try:
                await connection.open()
            except (errors.HearthError, OSError) as error:
                raise ClusterHidden(f"{HIDDEN}, and cannot be reached: {error}") from error
            self._connections.append(connection)
            found = self._open[config.key] = OtherSession(session=Session(connection), namespace=config.namespace)
        return found

    async def close(self) -> None:
        """Close all."""
        while self._connections:
            await self._connections.pop().close()

    def _is_local(self) -> bool:
        """Return whether the home cluster is on the user's own machine, as for trials."""
        host = urllib.parse.urlsplit(self.home.connection.credentials.server).hostname or ""
        return host == "localhost" or bool(network_addresses.deny(host))

    async def _read_kubeconfig(self, stack: StackState) -> str:
        reference = cluster_objects.find_kubeconfig(stack.spec)
        if reference is None or not reference.name:
            raise ClusterHidden(HIDDEN)
        try:
            secret = await self.home.get(SECRET, stack.namespace, reference.name)
        except errors.ApiStatusError as refused:
            raise ClusterHidden(f"{HIDDEN}: only the status is shown: {refused}") from refused
        data = object_fields.mapping(secret, "data")
        keys = (reference.key,) if reference.key else cluster_objects.KUBECONFIG_KEYS
        found = next((data[key] for key in keys if isinstance(data.get(key), str)), None)
        if found is None:
            raise ClusterHidden(f"{HIDDEN}: secret/{safe_text.one_line(reference.name)} has no key {' or '.join(keys)}")
        try:
            return base64.b64decode(found, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ClusterHidden(f"{HIDDEN}: secret/{safe_text.one_line(reference.name)} has no text there") from None
