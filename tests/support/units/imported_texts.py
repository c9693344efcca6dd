"""Random files of manifests: names and kinds of every allowed form, lists, several documents, texts of all kinds."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import yaml
from hypothesis import strategies
from hypothesis.strategies import SearchStrategy

from hearth.cli.importer import cluster_scoped_kinds
from hearth.model import kinds, names
from hearth.template.parser import template_parser
from hearth.template.text import kubectl_yaml

Strategy = SearchStrategy[Any]

WORDS = sorted(
    template_parser.RESERVED_RESOURCE_NAMES | {"key", "has", "size", "matches", "self", "ok", "a", "web", "kube-root"}
)
DNS = strategies.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?)?", fullmatch=True
)
PATH = strategies.text(alphabet="aAz09:._-é\u4e2d\U0001f525${}", min_size=1, max_size=60).filter(
    lambda name: name not in (".", "..")
)
"""Text of a path: names of roles and bindings."""
LONG = strategies.integers(200, 253).map(lambda length: "x" * length)
SOUND_NAMES = (strategies.sampled_from([word for word in WORDS if "_" not in word]) | DNS | LONG).filter(
    # PyYAML writes these without quotes, and kubectl reads them as true and false.
    lambda name: name not in ("y", "n")
)
FILE_NAMES = (
    strategies.from_regex(r"[A-Za-z0-9_. -]{1,70}(\.ya?ml)?(\.gz)?", fullmatch=True)
    | strategies.sampled_from(["-", "00-all.yaml", "3scale.yaml", "2048.yml", "kustomization.yaml", "été.yaml", "日本.yaml", "a/b/00.yaml", "x" * 200])
)  # fmt: skip
KINDS = strategies.sampled_from(
    [
        *(("v1", kind) for kind in ("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Namespace")),
        *(("rbac.authorization.k8s.io/v1", kind) for kind in ("Role", "ClusterRole", "ClusterRoleBinding")),
        *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
        *(("example.com/v1", kind) for kind in ("Map", "List", "String", "Type", "AllowList", "X", "Widget", "HTTPRoute9")),
        ("example.com/v1beta1", "AKindWithAnExtraordinarilyLongNameThatGoesOnAndOnForEver"),
    ]
)  # fmt: skip
ANNOTATIONS = strategies.dictionaries(
    strategies.sampled_from(
        [
            *("helm.sh/hook", "helm.sh/resource-policy", "argocd.argoproj.io/sync-options", "argocd.argoproj.io/hook"),
            *("kapp.k14s.io/change-group", "note", "hearth.dev/incarnation", "config.kubernetes.io/local-config"),
        ]
    ),
    strategies.sampled_from(["keep", "post-install", "Prune=false, Replace=true", "PostSync", "x", "", "false", "5"]),
    max_size=3,
)
SCALARS = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-(2**70), 2**70)
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(max_size=20)
    | strategies.sampled_from(["${x}", "$${x}", "${HOME:-/root}", "$(VAR)", "{{ .Values.x }}", "(sensitive)!", "yes", "1e3", "0o7", "\t", "…"])
)  # fmt: skip
KEYS = strategies.text(alphabet="abcA9._-/é", min_size=1, max_size=12) | strategies.sampled_from(
    ["y", "null", "1", "<<", "=", "~"]
)
VALUES = strategies.recursive(
    SCALARS,
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


TYPED: dict[str, dict[str, Strategy]] = {
    "ConfigMap": {"data": strategies.dictionaries(KEYS, strategies.text(max_size=20), max_size=3)},
    "Secret": {"stringData": strategies.dictionaries(KEYS, strategies.text(max_size=20), max_size=3)},
    "ServiceAccount": {"automountServiceAccountToken": strategies.booleans()},
    "ClusterRole": {"rules": strategies.just([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]}])},
}
"""The fields of a manifest that matches its schema, by kind."""


@strategies.composite
def typed_manifests(draw: strategies.DrawFn) -> dict[str, Any]:
    """A manifest that conforms to a schema of the cluster, or whose kind no cluster serves."""
    manifest: dict[str, Any] = draw(sound_manifests())
    if manifest["kind"] not in TYPED and not manifest["apiVersion"].startswith("example.com"):
        manifest |= {"apiVersion": "v1", "kind": "ConfigMap"}
    if manifest["kind"] in TYPED:
        stated = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}
        return {**stated, **{field: draw(values) for field, values in TYPED[manifest["kind"]].items()}}
    return manifest


@strategies.composite
def sound_manifests(draw: strategies.DrawFn) -> dict[str, Any]:
    """A manifest that the API server may accept."""
    api_version, kind = draw(KINDS)
    is_role = api_version.startswith("rbac")
    metadata: dict[str, Any] = {
        "name": draw(SOUND_NAMES | PATH.map(lambda name: name.replace("/", "")) if is_role else SOUND_NAMES)
    }
    group = api_version.rpartition("/")[0]
    metadata["name"] = metadata["name"][: names.STRICT_LENGTHS.get(kinds.make_key(group, kind))]
    if draw(strategies.booleans()):
        metadata["namespace"] = draw(strategies.sampled_from(["prod", "kube-system", "n-1"]))
    if draw(strategies.booleans()):
        metadata["annotations"] = draw(ANNOTATIONS)
    if draw(strategies.booleans()):
        del metadata["name"]
        metadata["generateName"] = draw(strategies.sampled_from(["a-", "list", "x" * 60, "9"]))
    body = draw(
        strategies.dictionaries(strategies.sampled_from(["data", "spec", "rules", "status"]), VALUES, max_size=2)
    )
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


@strategies.composite
def wild_manifests(draw: strategies.DrawFn) -> Any:
    """Something that starts like a manifest and then breaks somewhere."""
    manifest = draw(sound_manifests())
    match draw(strategies.integers(0, 6)):
        case 0:
            manifest["metadata"][
                draw(strategies.sampled_from(["name", "namespace", "labels", "annotations", "generateName", "uid"]))
            ] = draw(VALUES)
        case 1:
            manifest[draw(strategies.sampled_from(["apiVersion", "kind", "metadata", "items", "spec"]))] = draw(VALUES)
        case 2:
            manifest["metadata"]["name"] = draw(strategies.text(max_size=10))
        case 3:
            manifest = {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "a.b"},
                "spec": draw(VALUES),
            }
        case 4:
            manifest |= {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "webhooks": draw(VALUES),
            }
        case 5:
            return draw(VALUES)
        case _:
            manifest["metadata"]["annotations"] = draw(strategies.dictionaries(KEYS, VALUES, max_size=2))
    return manifest


def in_list(manifests: list[Any], shape: str) -> list[Any]:
    """Return the documents that contain manifests."""
    match shape:
        case "List":
            return [{"apiVersion": "v1", "kind": "List", "items": manifests}]
        case "nested":
            return [
                {
                    "apiVersion": "v1",
                    "kind": "List",
                    "items": [{"apiVersion": "v1", "kind": "List", "items": manifests}],
                }
            ]
        case "null":
            return [*manifests, {"apiVersion": "v1", "kind": "List", "items": None}]
    return manifests


def write(documents: list[Any], form: str) -> str:
    """Return documents as text. Texts like `08`, which only kubectl reads as numbers, are quoted."""
    dumper = kubectl_yaml.Dumper
    match form:
        case "json" if len(documents) == 1:
            return json.dumps(documents[0], ensure_ascii=False)
        case "sparse":
            return (
                "---\n# nothing\n---\n"
                + "---\n...\n---\n".join(yaml.dump(each, Dumper=dumper, default_flow_style=True) for each in documents)
                + "---\n"
            )
    return str(yaml.dump_all(documents, Dumper=dumper, allow_unicode=True))


def identify(manifest: dict[str, Any]) -> str:
    """Return what distinguishes the object of a manifest from all others in a cluster."""
    group, kind, metadata = manifest["apiVersion"].rpartition("/")[0], manifest["kind"], manifest["metadata"]
    is_cluster_wide = cluster_scoped_kinds.is_cluster_wide(group, kind)
    namespace = "" if is_cluster_wide else metadata.get("namespace", "default")
    return json.dumps([group, kind, metadata.get("name", id(manifest)), namespace])


@strategies.composite
def files(draw: strategies.DrawFn, *, is_sound: bool = False, is_typed: bool = False) -> list[str]:
    """The texts of one or two files. is_typed: for a cluster, which compares them with schemas."""
    one = typed_manifests() if is_typed else sound_manifests() if is_sound else sound_manifests() | wild_manifests()
    unique = identify if is_sound else None
    shapes = ["plain", "List", "nested"] + ([] if is_sound else ["null"])
    manifests = draw(strategies.lists(one, min_size=1, max_size=6, unique_by=unique))
    cut = draw(strategies.integers(0, len(manifests)))
    found = []
    for part in (manifests[:cut], manifests[cut:]):
        if part:
            documents = in_list(part, draw(strategies.sampled_from(shapes)))
            found.append(write(documents, draw(strategies.sampled_from(["yaml", "json", "sparse"]))))
    return found


def draw_samples(*, count: int, seed: int) -> list[tuple[list[str], str]]:
    """Return some sound files, each with a name; the same ones for a seed."""
    found: list[tuple[list[str], str]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=count, database=None, phases=[hypothesis.Phase.generate], deadline=None)
    @hypothesis.given(files(is_sound=True, is_typed=True), FILE_NAMES)
    def collect(contents: list[str], file: str) -> None:
        found.append((contents, file))

    collect()
    return found
