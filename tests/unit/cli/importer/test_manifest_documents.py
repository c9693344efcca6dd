"""Parsing texts into manifests, and the mistakes that are reported."""

from __future__ import annotations

import json

import pytest

from hearth.cli.importer import manifest_documents
from hearth.cli.importer.manifest_documents import ManifestDocument, SourceText
from hearth.model import errors

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def read(*contents: str, namespace: str = "default") -> list[ManifestDocument]:
    texts = [SourceText(source=f"{number}.yaml", content=content) for number, content in enumerate(contents, start=1)]
    return manifest_documents.read_all(texts, default_namespace=namespace)


def find_mistakes(*contents: str) -> list[str]:
    with pytest.raises(errors.InvalidDefinition) as caught:
        read(*contents)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_every_document_of_every_file_is_taken_in_order() -> None:
    found = read(f"{CONFIG}---\n---\napiVersion: apps/v1\nkind: Deployment\n", CONFIG.replace("a}", "b}"))

    assert [(document.kind, document.group, document.name, document.place) for document in found] == [
        ("ConfigMap", "", "a", "1.yaml, document 1 (line 1)"),
        ("Deployment", "apps", "", "1.yaml, document 3 (line 6)"),
        ("ConfigMap", "", "b", "2.yaml, document 1 (line 1)"),
    ]


def test_json_is_read_as_json() -> None:
    (found,) = read(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "\U0001f600", "b": 1.5}}))
    assert found.manifest["data"] == {"a": "\U0001f600", "b": 1.5}


def test_a_list_is_taken_apart() -> None:
    inner = '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Secret"}]}'
    found = read(f"apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Service}}\n- {inner}\n")

    assert [(document.kind, document.place) for document in found] == [
        ("Service", "1.yaml, document 1 (line 1), item 1"),
        ("Secret", "1.yaml, document 1 (line 1), item 2, item 1"),
    ]


def test_items_of_a_typed_list_take_their_kind_from_it() -> None:
    found = read("apiVersion: apps/v1\nkind: DeploymentList\nitems: [{metadata: {name: web}}]")

    assert [(document.api_version, document.kind, document.name) for document in found] == [
        ("apps/v1", "Deployment", "web")
    ]


def test_a_kind_that_only_ends_like_a_list_is_none() -> None:
    assert [document.kind for document in read("apiVersion: example.org/v1\nkind: WishList\n")] == ["WishList"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            f"{CONFIG}---\nkind: Service\n",
            "1.yaml, document 2 (line 5): apiVersion must be text, found nothing; every manifest starts with apiVersion and kind",
            id="no apiVersion",
        ),
        pytest.param(
            "apiVersion: v1\nkind: 12\n",
            "1.yaml, document 1 (line 1): kind must be text, found the number 12; every manifest starts with apiVersion and kind",
            id="kind is no text",
        ),
        pytest.param(
            "- a\n",
            "1.yaml, document 1 (line 1): must be a mapping, found a list; every manifest starts with apiVersion and kind",
            id="no mapping",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [hello]\n",
            "1.yaml, document 1 (line 1), item 1: must be a mapping, found a text; every manifest starts with apiVersion and kind",
            id="item is no mapping",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 12}\n",
            "1.yaml, document 1 (line 1): metadata.name must be text, found the number 12; put it in quotes",
            id="name is a number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: a/b}}]\n",
            "1.yaml, document 1 (line 1), item 1: metadata.name must not be . or .., or contain /, % or control characters, "
            "found the text 'a/b'; rename it",
            id="name with a slash",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: A.b}\n",
            "1.yaml, document 1 (line 1): metadata.namespace must be 63 lower-case letters, digits or dashes at most, "
            "found the text 'A.b'; name an existing namespace",
            id="no namespace",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: '', labels: ''}\n",
            "1.yaml, document 1 (line 1): metadata.labels must be a map of texts, found text",
            id="labels are a text, an empty one as well",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: [a]\n",
            "1.yaml, document 1 (line 1): metadata must be a mapping, found a list",
            id="metadata is a list",
        ),
        pytest.param(
            "a: [1\n",
            "1.yaml: is not valid YAML: line 2, column 1: while parsing a flow sequence: did not find expected ',' or ']'",
            id="no YAML",
        ),
        pytest.param("# nothing\n", "1.yaml: contains no manifest", id="empty"),
    ],
)
def test_a_mistake_tells_file_document_and_next_step(content: str, message: str) -> None:
    assert find_mistakes(content) == [message]


def test_all_mistakes_are_reported_at_once() -> None:
    found = find_mistakes("kind: Service\n---\na: [\n---\nkind: Pod\n", "apiVersion: v1\n")

    assert [message.split(": ")[0] for message in found] == [
        "1.yaml, document 1 (line 1)",
        "1.yaml",
        "2.yaml, document 1 (line 1)",
    ]


def test_two_manifests_of_one_object_are_refused() -> None:
    same = CONFIG.replace("{name: a}", "{name: a, namespace: default}")

    (mistake,) = find_mistakes(CONFIG, same)
    assert mistake == (
        "2.yaml, document 1 (line 1): configmap/a in namespace default is already in 1.yaml, document 1 (line "
        "1); remove one of the two"
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(CONFIG.replace("{name: a}", "{name: a, namespace: other}"), id="namespace"),
        pytest.param(CONFIG.replace("ConfigMap", "Secret"), id="kind"),
        pytest.param(CONFIG.replace("v1", "example.org/v1"), id="group"),
    ],
)
def test_objects_that_differ_in_anything_may_share_a_name(other: str) -> None:
    assert len(read(CONFIG, other)) == 2


def test_objects_without_a_name_are_no_duplicates() -> None:
    nameless = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: migrate-}\n"

    assert len(read(nameless, nameless)) == 2


def test_cluster_wide_objects_have_no_namespace() -> None:
    (document,) = read("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast, namespace: shop}\n")

    assert document.locate("default").namespace == ""
