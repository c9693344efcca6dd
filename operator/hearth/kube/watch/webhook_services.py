"""Services of webhooks that can reject a write; changes of their endpoints trigger retries.

Must not know which step waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearth.kube.client import api_requests
from hearth.kube.watch.watch_context import WatchConnection
from hearth.model.child import Object
from hearth.model.kinds import Kinds
from hearth.plan.retry.retry_triggers import TriggerSource

API_VERSION = "admissionregistration.k8s.io/v1"
CONFIGURATIONS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
LABEL_SERVICE = "kubernetes.io/service-name"
"""The label of every EndpointSlice that names its Service."""


async def get_source(connection: WatchConnection, kinds: Kinds) -> TriggerSource | None:
    """Return the endpoints of all these Services; None if there is none. Raises `ApiStatusError` or `Unreachable`."""
    names: set[str] = set()
    for name in CONFIGURATIONS:
        kind = kinds.find(API_VERSION, name)
        if kind is not None:
            listed = await connection.request("GET", api_requests.collection_path(kind))
            names.update(find_services(listed.get("items") or ()))
    if not names:
        return None
    # One watch for all: a Service of the same name in another namespace costs one unnecessary retry.
    selector = f"{LABEL_SERVICE} in ({','.join(sorted(names))})"
    return TriggerSource(api_version="discovery.k8s.io/v1", kind="EndpointSlice", labels=selector)


def find_services(configurations: list[Object] | tuple[()]) -> Iterator[str]:
    """Yield the names of the Services whose failure rejects a write."""
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None and webhook.get("failurePolicy", "Fail") != "Ignore":
                yield service["name"]
