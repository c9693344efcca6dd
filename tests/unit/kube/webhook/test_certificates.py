"""The webhook's certificates and configurations: created, renewed in time, and trusted before they are served."""

from __future__ import annotations

import base64
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from hearth.kube.client.api_requests import ApiClient
from hearth.kube.webhook import certificates, webhook_configuration
from hearth.kube.webhook.certificates import CertificateSecret, CertificateSet
from hearth.model import errors
from support.server import api_errors
from support.units.scripted_api.scripted_connection import ScriptedConnection, exists

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOST = "hearth-webhook.hearth-system.svc"
DAY = timedelta(days=1)


def make(hosts: set[str] | None = None, now: datetime = NOW) -> CertificateSet:
    return certificates.renew(CertificateSet(), hosts=hosts or {HOST}, now=now)


def authorities(certificates: CertificateSet) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(certificates.authorities)


def test_new_certificates_are_valid_for_all_hosts() -> None:
    hosts = {HOST, "127.0.0.1", "::1"}
    made = make(hosts)

    assert certificates.is_valid(made, hosts=hosts, now=NOW)
    assert certificates.renew(made, hosts=hosts, now=NOW) is made
    assert certificates.find_expiration(made) == NOW + certificates.SERVING_LIFETIME


@pytest.mark.parametrize(
    ("days", "is_renewed"), [(0, False), (59, False), (61, True), (200, True)], ids=["new", "young", "old", "expired"]
)
def test_a_serving_certificate_is_renewed_after_two_thirds_of_its_life(days: int, is_renewed: bool) -> None:
    before = make()
    after = certificates.renew(before, hosts={HOST}, now=NOW + days * DAY)

    assert (after.certificate != before.certificate) is is_renewed
    assert after.authorities == before.authorities
    assert certificates.is_valid(after, hosts={HOST}, now=NOW + days * DAY)


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    before = renew_until(NOW + certificates.AUTHORITY_LIFETIME * 0.65)
    # Two thirds of the authority's lifetime are over, and less of the serving certificate's lifetime.
    late = NOW + certificates.AUTHORITY_LIFETIME * 2 / 3
    first = certificates.renew(before, hosts={HOST}, now=late)
    second = certificates.renew(first, hosts={HOST}, now=late + certificates.SPREAD)

    assert (len(authorities(before)), len(authorities(first))) == (1, 2)
    assert first.certificate == before.certificate
    assert second.certificate != before.certificate
    assert second.authorities == first.authorities
    assert certificates.is_valid(second, hosts={HOST}, now=late + certificates.SPREAD)


def renew_until(end: datetime) -> CertificateSet:
    """The certificates after renewals in time until then."""
    made, now = make(), NOW
    while now < end:
        now += 61 * DAY
        made = certificates.renew(made, hosts={HOST}, now=now)
    return made


def test_another_host_needs_another_certificate() -> None:
    before = make()
    after = certificates.renew(before, hosts={"10.0.0.1"}, now=NOW + DAY)

    assert after.certificate != before.certificate
    assert certificates.is_valid(after, hosts={"10.0.0.1"}, now=NOW + DAY)


@pytest.mark.parametrize("field", ["authorities", "authority_key", "certificate", "key"])
@pytest.mark.parametrize("value", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_broken_is_made_again(field: str, value: bytes) -> None:
    broken = dataclasses.replace(make(), **{field: value})
    mended = certificates.renew(broken, hosts={HOST}, now=NOW + DAY)

    assert certificates.is_valid(mended, hosts={HOST}, now=NOW + DAY)


def test_a_key_of_another_certificate_is_not_served() -> None:
    assert not certificates.is_valid(dataclasses.replace(make(), key=make().key), hosts={HOST}, now=NOW)


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(make())


@pytest.mark.parametrize(
    ("annotations", "authority_key", "is_foreign"),
    [
        ({}, b"key", False),
        ({}, b"", True),
        ({"cert-manager.io/certificate-name": "hearth"}, b"key", True),
    ],
    ids=["ours", "an administrator's", "cert-manager's"],
)
def test_a_secret_of_another_program_is_never_written(
    annotations: dict[str, str], authority_key: bytes, is_foreign: bool
) -> None:
    found = dataclasses.replace(make(), authority_key=authority_key)
    raw = {"metadata": {"annotations": annotations}, "data": certificates.write_data(found)}

    assert certificates.is_issued_elsewhere(raw, certificates.parse_secret(raw)) is is_foreign


def test_a_secret_keeps_what_was_written() -> None:
    made = make()

    assert certificates.parse_secret({"data": certificates.write_data(made)}) == made
    assert certificates.parse_secret({"data": {"tls.crt": "%%%", "ca.crt": 5}}) == CertificateSet()
    assert certificates.parse_secret(None) == CertificateSet()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(exists(), id="another replica stores its own"),
        pytest.param(api_errors.namespace_missing("hearth"), id="the namespace is missing"),
    ],
)
async def test_certificates_that_cannot_be_stored_are_loaded_again(refusal: errors.ApiStatusError) -> None:
    connection = ScriptedConnection({"POST /api/v1/namespaces/hearth/secrets": refusal})
    client = ApiClient(connection, None)  # type: ignore[arg-type]  # the same methods
    secret = CertificateSecret(client=client, namespace="hearth", name="hearth-webhook")

    with pytest.raises(errors.ApiStatusError) as caught:
        await secret.load(hosts={HOST}, now=NOW)
    assert caught.value.is_conflict


# The part of a webhook configuration that the operator keeps up to date.


BUNDLE = base64.b64encode(b"authority").decode()


def configure(**config: Any) -> dict[str, Any]:
    return {"webhooks": [{"name": "stacks.hearth.dev", "clientConfig": config}]}


def find(raw: dict[str, Any]) -> list[dict[str, Any]]:
    return list(webhook_configuration.find_changes(raw, authorities=b"authority", path="/secret"))


def test_authority_and_path_are_set_once() -> None:
    service = {"name": "hearth-webhook", "namespace": "hearth-system"}
    steps = find(configure(service=service))

    assert steps == [
        {"op": "test", "path": "/webhooks/0/name", "value": "stacks.hearth.dev"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE},
        {"op": "add", "path": "/webhooks/0/clientConfig/service/path", "value": "/secret/stacks.hearth.dev"},
    ]
    assert find(configure(service={**service, "path": "/secret/stacks.hearth.dev"}, caBundle=BUNDLE)) == []


def test_a_url_keeps_its_host() -> None:
    steps = find(configure(url="https://10.0.0.1:9443/old", caBundle=BUNDLE))

    url = "/webhooks/0/clientConfig/url"
    assert steps[1:] == [
        {"op": "test", "path": url, "value": "https://10.0.0.1:9443/old"},
        {"op": "replace", "path": url, "value": "https://10.0.0.1:9443/secret/stacks.hearth.dev"},
    ]


def test_certificates_name_whom_the_configurations_call() -> None:
    service = configure(service={"name": "w", "namespace": "n"})

    assert list(webhook_configuration.find_hosts(service)) == ["w.n.svc"]
    assert list(webhook_configuration.find_hosts(configure(url="https://[::1]:9443/"))) == ["::1"]
    assert list(webhook_configuration.find_hosts({})) == []
