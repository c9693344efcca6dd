"""The Secret with the certificates of the webhook: read, created and renewed by any replica, or filled by cert-manager.

A write has the version that it is based on, so of two replicas that renew at once, one reads the certificates of the
other.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from datetime import datetime
from typing import Any

from hearth.kube.client import api_requests
from hearth.kube.client.api_client import ApiClient
from hearth.kube.objects import hash_key
from hearth.kube.webhook import certificates
from hearth.kube.webhook.certificates import CertificateSet
from hearth.model import errors, value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import SECRET

FIELDS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
"""Key of the Secret by field. Without `ca.key`, another program issues the certificates."""
CONFLICT = 409


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSecret:
    """The Secret of that name in the operator's namespace."""

    client: ApiClient
    namespace: str
    name: str

    async def load(self, *, hosts: Collection[str], now: datetime) -> CertificateSet | None:
        """Return the certificates to use, renewed if due; None while another program has not issued them yet.

        Raises `ApiStatusError` with 409 if another replica is faster: load again.
        """
        raw = await self._find()
        found = parse(raw)
        if raw is not None and is_foreign(raw, found):
            return found if found.certificate and found.key else None
        renewed = certificates.renew(found, hosts=hosts, now=now)
        if renewed is found:
            return found
        if raw is None:
            code = await hash_key.create(self.client, SECRET, self._make(renewed))
            if code != 201:
                raise errors.ApiStatusError(code=CONFLICT, status=None)
        else:
            body = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "data": write(renewed)}
            await self.client.send("patch", SECRET, self._path, body=body)
        return renewed

    @property
    def _path(self) -> str:
        return api_requests.object_path(SECRET, self.namespace, self.name)

    async def _find(self) -> Object | None:
        try:
            return await self.client.send("get", SECRET, self._path)
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
            return None

    def _make(self, made: CertificateSet) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/part-of": "hearth"},
            },
            "data": write(made),
        }


def is_foreign(raw: Object, certificates: CertificateSet) -> bool:
    """Return whether another program fills the Secret: cert-manager, or an administrator."""
    annotations = raw["metadata"].get("annotations") or {}
    is_cert_manager = any(key.startswith("cert-manager.io/") for key in annotations)
    return is_cert_manager or bool(certificates.certificate and not certificates.authority_key)


def parse(raw: Object | None) -> CertificateSet:
    """Return the certificates in a Secret; those that are not base64 count as missing."""
    data: Any = (raw or {}).get("data")
    known = data if isinstance(data, dict) else {}
    return CertificateSet(**{field: decode(known.get(key)) for field, key in FIELDS.items()})


def decode(text: Any) -> bytes:
    """Decode a value of a Secret; empty if there is none, or if it is invalid."""
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def write(made: CertificateSet) -> dict[str, str]:
    """Return the data of the Secret."""
    return {key: base64.b64encode(getattr(made, field)).decode() for field, key in FIELDS.items()}
