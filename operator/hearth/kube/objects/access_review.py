"""Questions to the API server about the rights of another user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hearth.kube.client import api_requests
from hearth.kube.client.api_client import ApiClient
from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import ACCESS_REVIEW


class User(Protocol):
    """A user as the API server authenticated it."""

    @property
    def name(self) -> str:
        """The user name."""

    @property
    def uid(self) -> str:
        """The UID; "" for none."""

    @property
    def groups(self) -> Sequence[str]:
        """The groups."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further attributes for authorizers."""


@value_class.dataclass(frozen=True, slots=True)
class SubjectAccessReviews:
    """Asks the authorizers of the API server."""

    client: ApiClient

    async def may(self, user: User, verb: str, resource: str, *, namespace: str, name: str = "") -> bool:
        """Return whether the user may do that in the core API group."""
        attributes = {"verb": verb, "version": "v1", "resource": resource, "namespace": namespace, "name": name}
        spec: Object = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": dict(user.extra),
            "resourceAttributes": attributes,
        }
        body: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": ACCESS_REVIEW.name, "spec": spec}
        answer = await self.client.send("create", ACCESS_REVIEW, api_requests.collection_path(ACCESS_REVIEW), body=body)
        return bool((answer.get("status") or {}).get("allowed"))
