"""A release: its checks before the build, and its proofs as openssl verifies them."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import make_release
import pytest
import release_files
import release_olm
import release_plugin
import release_proofs
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from image_debian import Impossible
from release_proofs import Source, Subject

import hearth
from support import repository

SOURCE = Source(repository="https://hearth.example", commit="c" * 40, time=1_700_000_000, lock_digest="d" * 64)
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
PRIVATE = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
PLAIN = serialization.NoEncryption()


@pytest.fixture
def key(tmp_path: Path) -> ec.EllipticCurvePrivateKey:
    """A key as openssl writes it."""
    file = tmp_path / "key.pem"
    call_openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(file))
    call_openssl("pkey", "-in", str(file), "-pubout", "-out", str(tmp_path / "hearth.pub"))
    return release_proofs.read_key(file)


@pytest.fixture
def signed(tmp_path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    """The folder of a small signed release."""
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "crds.yaml").write_text("---\n")
    order = make_release.Order(architectures=["amd64"], debian="http://debian.example/{}")
    image = Subject(name="hearth:1", digest="e" * 64)
    make_release.write_proofs(folder, order, SOURCE, image, [make_component("a", "1"), make_component("a", "2")])
    make_release.sign(folder, key)
    return folder


def make_component(name: str, digest: str) -> dict[str, Any]:
    return {"purl": f"pkg:pypi/{name}@1", "hashes": [{"alg": "SHA-256", "content": digest * 64}]}


def call_openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def is_verified(content: Path, signature: bytes, folder: Path) -> bool:
    """Whether openssl accepts the signature of a file."""
    (folder / "signature").write_bytes(signature)
    command = ["openssl", "dgst", "-sha256", "-verify", str(folder / "hearth.pub")]
    command += ["-signature", str(folder / "signature"), str(content)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def is_intact(folder: Path) -> bool:
    """Whether all files have their checksums."""
    command = ["sha256sum", "--check", "--strict", "--quiet", "checksums.txt"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def find_file(folder: Path, ending: str) -> Path:
    (found,) = folder.glob(f"*{ending}")
    return found


def read_entries(file: Path) -> dict[str, tarfile.TarInfo]:
    """The entries of an archive by name."""
    with tarfile.open(file) as archive:
        return {each.name: each for each in archive}


def make_checkout(folder: Path) -> Path:
    """A clean git checkout with what a release reads of it."""
    folder.mkdir()
    for name in ("pyproject.toml", "requirements.lock"):
        (folder / name).write_bytes((repository.ROOT / name).read_bytes())
    who = ["-c", "user.name=a", "-c", "user.email=a@example"]
    for command in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message=a"]):
        subprocess.run(["git", *command], cwd=folder, check=True, env={**os.environ, **GIT})
    return folder


def test_openssl_verifies_the_checksums_until_a_byte_changes(signed: Path, tmp_path: Path) -> None:
    checksums = signed / "checksums.txt"
    signature = base64.b64decode((signed / "checksums.txt.sig").read_text())

    assert is_intact(signed)
    assert is_verified(checksums, signature, tmp_path)

    (signed / "crds.yaml").write_text("--- \n")
    assert not is_intact(signed)

    # An attacker who changes a file can also change its checksum, but not the signature.
    subjects = [release_proofs.hash_file(find_file(signed, each)) for each in ("crds.yaml", "-provenance.json")]
    checksums.write_text(release_proofs.make_checksums(subjects))
    assert is_intact(signed)
    assert not is_verified(checksums, signature, tmp_path)


def test_openssl_verifies_the_envelope_until_a_byte_changes(signed: Path, tmp_path: Path) -> None:
    envelope = json.loads(find_file(signed, ".dsse.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    (signature,) = envelope["signatures"]
    encoded = tmp_path / "encoded"
    encoded.write_bytes(b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload))

    assert payload == find_file(signed, "-provenance.json").read_bytes()
    assert is_verified(encoded, base64.b64decode(signature["sig"]), tmp_path)

    encoded.write_bytes(encoded.read_bytes().replace(b'"cccc', b'"cccd'))
    assert not is_verified(encoded, base64.b64decode(signature["sig"]), tmp_path)


def test_provenance_names_artifacts_commit_and_packages(signed: Path) -> None:
    statement = json.loads(find_file(signed, "-provenance.json").read_text())
    definition = statement["predicate"]["buildDefinition"]
    crds = release_proofs.hash_file(signed / "crds.yaml")

    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert statement["subject"] == [
        {"name": "crds.yaml", "digest": {"sha256": crds.digest}},
        {"name": "hearth:1", "digest": {"sha256": "e" * 64}},
    ]
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://hearth.example", "digest": {"gitCommit": "c" * 40}},
        {"name": "requirements.lock", "digest": {"sha256": "d" * 64}},
        {"uri": "pkg:pypi/a@1", "digest": {"sha256": "1" * 64}},
        {"uri": "pkg:pypi/a@1", "digest": {"sha256": "2" * 64}},
    ]


def test_two_signatures_of_one_content_are_the_same(key: ec.EllipticCurvePrivateKey) -> None:
    assert release_proofs.sign(b"content", key) == release_proofs.sign(b"content", key)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot read the key", id="no-file"),
        pytest.param(
            b"-----BEGIN PRIVATE KEY-----\n", "has no private key in PEM format: create one with openssl", id="broken"
        ),
        pytest.param(
            rsa.generate_private_key(65537, 2048).private_bytes(*PRIVATE, PLAIN), "is not of type ECDSA P-256", id="rsa"
        ),
        pytest.param(
            ec.generate_private_key(ec.SECP384R1()).private_bytes(*PRIVATE, PLAIN),
            "is not of type ECDSA P-256",
            id="other-curve",
        ),
        pytest.param(
            ec.generate_private_key(ec.SECP256R1()).private_bytes(
                *PRIVATE, serialization.BestAvailableEncryption(b"password")
            ),
            "has a password: decrypt it first",
            id="password",
        ),
    ],
)
def test_an_unusable_key_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(Impossible, match=message) as refusal:
        release_proofs.read_key(file)
    assert str(file) in str(refusal.value)


def test_a_release_needs_a_clean_checkout(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")

    assert re.fullmatch("[0-9a-f]{40}", make_release.read_source(root).commit)

    (root / "new.txt").touch()
    with pytest.raises(Impossible, match=r"has uncommitted changes \(\?\? new\.txt\): commit or remove them"):
        make_release.read_source(root)


def test_a_release_needs_a_git_checkout(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="is not a git checkout: clone the repository"):
        make_release.read_source(tmp_path)


def test_a_release_names_missing_programs(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("")
    (tmp_path / "git").chmod(0o755)

    with pytest.raises(Impossible, match="a release needs apt-get, dpkg-deb: install them"):
        make_release.check_tools(str(tmp_path))


def test_a_bill_of_materials_is_bound_to_its_image() -> None:
    application = {"bom-ref": "pkg:pypi/hearth@1", "version": "1", "licenses": []}
    other = {"bom-ref": "pkg:pypi/a@1"}
    bill = {"metadata": {"component": application}, "components": [other], "dependencies": []}

    bound = release_files.bind_bill(bill, "amd64", f"sha256:{'e' * 64}")

    image = bound["metadata"]["component"]
    assert (image["type"], image["hashes"]) == ("container", [{"alg": "SHA-256", "content": "e" * 64}])
    assert bound["components"] == [application, other]
    assert bound["dependencies"] == [{"ref": image["bom-ref"], "dependsOn": ["pkg:pypi/a@1", "pkg:pypi/hearth@1"]}]


def test_archives_have_the_tracked_files_and_the_papers(tmp_path: Path) -> None:
    for name, write in (("one", release_files.write_chart), ("two", release_files.write_manifests)):
        write(tmp_path / f"{name}.tar.gz", tmp_path / name, SOURCE.time)
        write(tmp_path / f"{name}-again.tar.gz", tmp_path / f"{name}-again", SOURCE.time)

    chart, manifests = (read_entries(tmp_path / f"{name}.tar.gz") for name in ("one", "two"))
    assert {"hearth/Chart.yaml", "hearth/LICENSE", "hearth/SECURITY.md"} <= chart.keys()
    assert {
        f"two/{each}" for each in ("LICENSE", "crds/Kustomization", "manifests/install/rbac.yaml")
    } <= manifests.keys()
    assert not any("image" in name or "release" in name for name in manifests)
    assert {each.mtime for each in chart.values()} == {SOURCE.time}
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "one-again.tar.gz").read_bytes()
    # The header of gzip has no time of the build.
    assert (tmp_path / "one.tar.gz").read_bytes()[4:8] == bytes(4)


def test_all_custom_resource_definitions_are_one_file(tmp_path: Path) -> None:
    release_files.write_crds(tmp_path / "crds.yaml")

    kinds = re.findall(r"^---\n(?:.*\n)*?kind: (\w+)$", (tmp_path / "crds.yaml").read_text(), re.MULTILINE)
    assert kinds == ["CustomResourceDefinition"] * 7


def make_cluster_service_version() -> dict[str, Any]:
    files = release_olm.make_bundle(repository.ROOT, "registry.example/hearth@sha256:1")
    made: dict[str, Any] = yaml.safe_load(files["manifests/hearth.clusterserviceversion.yaml"])
    return made


def test_the_bundle_for_olm_runs_the_program_without_the_webhook() -> None:
    (deployment,) = make_cluster_service_version()["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    assert container["image"] == "registry.example/hearth@sha256:1"
    assert container["args"] == ["run", "--http-address=:8080", "--log-format=json", "--leader-election"]
    assert [port["name"] for port in container["ports"]] == ["http"]


def test_the_bundle_for_olm_has_the_roles_of_the_operator() -> None:
    install = make_cluster_service_version()["spec"]["install"]["spec"]
    (cluster,), (namespaced,) = install["clusterPermissions"], install["permissions"]
    by_name = {
        (each["kind"], each["metadata"]["name"]): each
        for each in release_olm.read_objects([repository.MANIFESTS / "install" / "rbac.yaml"])
    }

    assert {cluster["serviceAccountName"], namespaced["serviceAccountName"]} == {"hearth"}
    assert cluster["rules"] == [
        *by_name["ClusterRole", "hearth-operator"]["rules"],
        *by_name["ClusterRole", "hearth-children-workloads"]["rules"],
    ]
    assert namespaced["rules"] == by_name["Role", "hearth-operator"]["rules"]


def test_the_bundle_for_olm_has_all_kinds_and_the_version_of_the_chart() -> None:
    spec = make_cluster_service_version()["spec"]
    crds = {path.stem for path in (repository.ROOT / "crds").glob("*.yaml")}

    assert {each["name"] for each in spec["customresourcedefinitions"]["owned"]} == crds
    assert (spec["version"], spec["minKubeVersion"]) == (hearth.__version__, "1.30.0")


def test_a_version_range_that_is_no_minimum_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the form"):
        release_olm.find_least_kubernetes({"kubeVersion": "<2"})


def test_the_plugin_contains_files_instead_of_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("of this machine")
    (root / "lib.so.1.2").write_text("library")
    links = {"lib.so.1": "lib.so.1.2", "lib.so": "lib.so.1", "absolute": "/etc/passwd", "outside": "../secret"}
    for name, target in {**links, "missing": "nothing", "folder": "."}.items():
        (root / name).symlink_to(target)

    release_plugin.replace_links(root)

    assert {path.name: path.read_text() for path in root.iterdir()} == dict.fromkeys(
        ["lib.so.1.2", "lib.so.1", "lib.so"], "library"
    )


def test_krew_finds_the_plugin_of_each_architecture() -> None:
    manifest = yaml.safe_load(release_plugin.make_krew_manifest("1.2.3", {"arm64": "b" * 64, "amd64": "a" * 64}))

    assert manifest["spec"]["version"] == "v1.2.3"
    assert [
        (each["selector"]["matchLabels"]["arch"], each["uri"].rpartition("/")[2], each["sha256"][0])
        for each in manifest["spec"]["platforms"]
    ] == [
        ("amd64", "kubectl-stack-1.2.3-linux-amd64.tar.gz", "a"),
        ("arm64", "kubectl-stack-1.2.3-linux-arm64.tar.gz", "b"),
    ]
