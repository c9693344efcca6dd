"""A resource's policies for changes by others, runs and deletion, and the mistakes in them."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import chunked_work, field_paths
from hearth.model.errors import Mistake
from hearth.template.blueprint import Completion, DriftPolicy, RunRetry
from hearth.template.parser import policies, template_parser
from hearth.template.parser.template_parser import ResourceSource

PATH = "spec.template.resources.a"
MANIFEST = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"labels": {"tier": "front"}, "annotations": "${params.annotations}"},
    "spec": {
        "replicas": "${params.replicas}",
        "template": {"spec": {"containers": [{"name": "web", "image": "a"}, {"name": "${params.sidecar}", "image": "b"}]}},
    },
}  # fmt: skip


def read(**words: Any) -> tuple[ResourceSource, list[Mistake]]:
    """A resource with these fields, and its mistakes."""
    reader = template_parser.TemplateParser("spec.template")
    source = chunked_work.finish(reader.read({"resources": {"a": {"manifest": MANIFEST, **words}}}))
    return source.resources["a"], reader.mistakes


def test_nothing_said_means_repair() -> None:
    source, mistakes = read()
    assert (source.drift_policy, source.ignore_fields, mistakes) == (DriftPolicy.REPAIR, (), [])


@pytest.mark.parametrize(
    "text",
    [
        "spec.replicas",
        "spec",
        "metadata.labels.tier",
        "metadata.annotations[example.com/owner]",
        'spec.template.spec.containers[name="web"].image',
        "spec.template.spec.containers[name=log].image",
    ],
)
def test_fields_that_the_manifest_states_can_be_ignored(text: str) -> None:
    source, mistakes = read(driftPolicy="Report", ignoreFields=[text])
    assert (source.drift_policy, source.ignore_fields, mistakes) == (DriftPolicy.REPORT, (field_paths.parse(text),), [])


@pytest.mark.parametrize(
    ("words", "completion", "retry"),
    [
        pytest.param({}, None, None, id="nothing is stated"),
        pytest.param({"completion": "Once"}, Completion.ONCE, None, id="once"),
        pytest.param({"retry": {}}, None, RunRetry(), id="an empty retry is one"),
        pytest.param(
            {"completion": "Rerun", "retry": {"limit": 0, "maxBackoff": "10m"}},
            Completion.RERUN,
            RunRetry(limit=0, max_backoff=600.0),
            id="all of it",
        ),
    ],
)
def test_what_is_stated(words: dict[str, Any], completion: Completion | None, retry: RunRetry | None) -> None:
    source, mistakes = read(**words)
    assert (source.completion, source.retry, mistakes) == (completion, retry, [])


@pytest.mark.parametrize(
    ("words", "where", "what"),
    [
        ({"driftPolicy": "Repare"}, "driftPolicy", "must be one of Repair, Report, Ignore"),
        ({"driftPolicy": True}, "driftPolicy", "must be one of"),
        ({"ignoreFields": "spec"}, "ignoreFields", "must be a list of fields"),
        ({"ignoreFields": [1]}, "ignoreFields[0]", "must be text"),
        ({"ignoreFields": ["spec.replicas", "spec..x"]}, "ignoreFields[1]", "is not a field path"),
        ({"ignoreFields": ["spec.replica"]}, "ignoreFields[0]", "'spec.replica' is not in the manifest"),
        ({"ignoreFields": ["spec.template.spec.containers.image"]}, "ignoreFields[0]", "is not in the manifest"),
        ({"ignoreFields": ["kind"]}, "ignoreFields[0]", "identifies the object"),
        ({"ignoreFields": ["metadata.name"]}, "ignoreFields[0]", "identifies the object"),
        ({"ignoreFields": ["metadata.labels[hearth.dev/stack]"]}, "ignoreFields[0]", "is written by Hearth"),
        ({"completion": "once"}, "completion", "must be one of Once, Rerun"),
        ({"completion": True}, "completion", "must be one of"),
        ({"retry": 3}, "retry", "must be a map"),
        ({"retry": {"limits": 3}}, "retry.limits", "'limits' is not known"),
        ({"retry": {"limit": -1}}, "retry.limit", "must be a whole number from 0"),
        ({"retry": {"limit": True}}, "retry.limit", "must be a whole number"),
        ({"retry": {"limit": 2**80}}, "retry.limit", "must be a whole number"),
        ({"retry": {"maxBackoff": "soon"}}, "retry.maxBackoff", "must be a duration, e.g. 90s or 10m"),
        ({"retry": {"maxBackoff": 5}}, "retry.maxBackoff", "must be a duration"),
        ({"retry": {"maxBackoff": "9" * 400 + "h"}}, "retry.maxBackoff", "must be a duration"),
    ],
    ids=str,
)
def test_a_mistake_is_named_by_its_path(words: dict[str, Any], where: str, what: str) -> None:
    _, [mistake] = read(**words)
    assert mistake.path == f"{PATH}.{where}"
    assert what in mistake.message


def test_a_key_in_brackets_can_be_named_in_replace_on() -> None:
    source, mistakes = read(updatePolicy={"replaceOn": ["spec.replicas", "metadata.annotations[example.com/sum]"]})
    assert source.replace_on == (("spec", "replicas"), ("metadata", "annotations", "example.com/sum"))
    assert mistakes == []


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param("spec.containers[*].image", "names an item of a list; name the list as a whole", id="every item"),
        pytest.param("spec.containers[0].image", "names an item of a list; name the list as a whole", id="by position"),
        pytest.param("spec.containers.*.image", "names an item of a list; name the list as a whole", id="a wildcard"),
        pytest.param('spec.containers[name="web"]', "names an item of a list; name the list as a whole", id="by key"),
        pytest.param("spec..replicas", "is not a field path", id="no path"),
    ],
)
def test_a_path_in_replace_on_that_could_never_match_is_a_mistake(field: str, expected: str) -> None:
    source, mistakes = read(updatePolicy={"replaceOn": [field]})
    assert source.replace_on == ()
    assert [(each.path, expected in each.message) for each in mistakes] == [(f"{PATH}.updatePolicy.replaceOn[0]", True)]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"resources": {"a": {"deletionPolicy": "Retain"}, "b": {"deletionPolicy": "Delete"}, "c": {}}}, {"a"}),
        ({"resources": {"a": {"deletionPolicy": "Retain", "manifest": "${((("}, "b": 7, 3: {}}}, {"a"}),
        ({"resources": ["a"]}, set()),
        ("nonsense", set()),
        (None, set()),
    ],
    ids=["sound", "mistakes elsewhere", "no map of resources", "no template", "nothing"],
)
def test_what_must_be_retained_is_read_despite_other_errors(template: Any, expected: set[str]) -> None:
    assert policies.find_retained(template) == expected
