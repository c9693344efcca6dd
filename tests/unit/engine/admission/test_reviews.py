"""Admission reviews: denials, warnings, and that no limit or fault ever denies a write."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from hearth.engine.admission import object_reviews
from hearth.engine.admission import review as review_module
from hearth.engine.admission.review import Author, Review, ReviewResult
from hearth.engine.admission.reviewer import AuthorCheck
from hearth.model import errors, limits, names
from hearth.model.api import crd
from hearth.model.errors import ApiStatusError
from hearth.model.text import times
from hearth.template import resource_group
from support.units import waiting
from support.units.admission_reviews import SOUND, Cluster, make_reviewer, write

MISTAKEN = {
    "a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "${params.nothing}"}}},
    "b": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}, "dependsOn": ["nowhere"]},
}


async def test_all_mistakes_are_one_denial() -> None:
    result = await make_reviewer().review_stack(write(MISTAKEN))

    first = result.denial.splitlines()[0]
    assert first.startswith("spec.template.resources.a")
    assert first.endswith(" (1 of 2 errors; nothing is changed)")
    assert "\n- spec.template.resources.b" in result.denial
    assert await make_reviewer().review_stack(write(SOUND)) == ReviewResult()


async def test_a_write_that_keeps_the_definition_is_never_denied() -> None:
    old = {"template": {"resources": MISTAKEN}}
    paused = await make_reviewer().review_stack(write(MISTAKEN, old=old, paused=True))
    changed = await make_reviewer().review_stack(write(MISTAKEN, old={**old, "parameters": {"x": 1}}))

    assert (paused.denial, len(paused.warnings)) == ("", 2)
    assert changed.denial


@pytest.mark.parametrize(
    ("change", "is_warned"),
    [
        pytest.param({}, True, id="an edit of the template"),
        pytest.param({"rollback": {"toRevision": 3}}, False, id="beside another rollback"),
        pytest.param({"rollback": {"toRevision": 2}}, True, id="beside the same request"),
    ],
)
async def test_an_edit_during_a_rollback_is_warned(change: dict[str, Any], is_warned: bool) -> None:
    old = {"template": {"resources": {}}, "rollback": {"toRevision": 2}}
    status = {"target": {"cause": "Rollback", "revision": 2}}
    review = write(SOUND, old=old, **change)
    assert review.old is not None

    result = await make_reviewer().review_stack(dataclasses.replace(review, old={**review.old, "status": status}))

    assert result.denial == ""
    assert any("ends the rollback to revision 2" in warning for warning in result.warnings) is is_warned
    kept = write(SOUND, old=review.spec)
    assert kept.old is not None
    paused = await make_reviewer().review_stack(dataclasses.replace(kept, old={**kept.old, "status": status}))
    assert paused.warnings == ()


@pytest.mark.parametrize(
    ("before", "lifetime", "is_denied"),
    [
        pytest.param(None, "2h", True, id="over already"),
        pytest.param("72h", "2h", True, id="shortened too much"),
        pytest.param("2h", "2h", False, id="unchanged"),
        pytest.param("2h", "4h", False, id="extended"),
        pytest.param("2h", None, False, id="removed"),
    ],
)
async def test_an_end_that_has_passed_is_denied(before: str | None, lifetime: str | None, is_denied: bool) -> None:
    review = write(SOUND, old={"template": {"resources": SOUND}, "expiresAfter": before}, expiresAfter=lifetime)
    review.new["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"

    reviewer = make_reviewer()
    reviewer.now = lambda: times.parse_time("2026-01-01T03:00:00Z")

    result = await reviewer.review_stack(review)

    assert ("created 3h ago, so it would be deleted now" in result.denial) is is_denied


@pytest.mark.parametrize(
    ("before", "window", "denial"),
    [
        pytest.param(None, {"zone": "Europe/Berlin"}, "", id="sound"),
        pytest.param(
            None, {"zone": "../etc"}, "spec.window.zone: is '../etc', which is not a time zone", id="a wrong zone"
        ),
        pytest.param(None, {"from": "24:00", "to": "00:00"}, "spec.window: never opens", id="it never opens"),
        pytest.param({"zone": "../etc"}, {"zone": "../etc"}, "", id="a wrong zone that is there already"),
    ],
)
async def test_a_wrong_window_is_denied(before: object, window: object, denial: str) -> None:
    review = write(SOUND, old={"template": {"resources": SOUND}, "window": before}, window=window)

    result = await make_reviewer().review_stack(review)

    assert (denial in result.denial) if denial else result.denial == ""


async def test_a_stack_that_is_being_deleted_is_not_reviewed() -> None:
    review = write(MISTAKEN)
    review.new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert await make_reviewer().review_stack(review) == ReviewResult()


@pytest.mark.parametrize(
    ("path", "reference"),
    [
        ("spec.templateRef", {"templateRef": {"kind": "ConfigMap", "name": "later"}}),
        ("spec.templateRefs[0]", {"templateRefs": [{"kind": "ConfigMap", "name": "later"}]}),
    ],
    ids=["one source", "several sources"],
)
async def test_what_another_object_supplies_is_a_warning(path: str, reference: dict[str, Any]) -> None:
    cluster = Cluster()
    review = Review(new={"metadata": {"name": "s", "namespace": "a"}, "spec": reference})
    missing = await make_reviewer(cluster).review_stack(review)
    cluster.sources["later"] = {"template.yaml": "resources: {a: {manifest: {apiVersion: v1, kind: ConfigMap}, x: 1}}"}
    mistaken = await make_reviewer(cluster).review_stack(review)

    assert missing.warnings == (f"{path}: configmap/later does not exist in namespace a; create it",)
    assert (mistaken.denial, len(mistaken.warnings)) == ("", 1)
    assert "(it is stored, and nothing is applied" in mistaken.warnings[0]


async def test_a_mistake_of_the_author_is_denied_although_a_source_is_named() -> None:
    cluster = Cluster()
    cluster.sources["more"] = {"other": "1"}
    result = await make_reviewer(cluster).review_stack(
        write(MISTAKEN, parametersFrom=[{"configMapRef": {"name": "more"}}])
    )

    assert result.denial


@pytest.mark.parametrize("is_there", [True, False])
async def test_only_what_a_source_could_mend_is_a_warning(is_there: bool) -> None:
    cluster = Cluster()
    if is_there:
        cluster.sources["more"] = {"text": "1"}
    parameters = {"text": {"type": "string"}, "size": {"type": "integer"}}
    sound = {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${params.text}"}}}}
    source = [{"configMapRef": {"name": "more"}}]

    async def review(resources: Any, **given: Any) -> ReviewResult:
        spec = {
            "template": {"parameters": parameters, "resources": resources},
            "parameters": given,
            "parametersFrom": source,
        }
        return await make_reviewer(cluster).review_stack(
            Review(new={"metadata": {"name": "s", "namespace": "a"}, "spec": spec})
        )

    mistaken = await review({**sound, **MISTAKEN}, size=1)
    wrong_type = await review(sound, size="many")
    missing = await review(sound)

    assert mistaken.denial
    assert "spec.parameters.size" in wrong_type.denial
    assert (missing.denial, bool(missing.warnings)) == ("", True)


async def test_a_resource_beyond_the_boundary_is_denied() -> None:
    loot = {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "b"}}}}
    result = await make_reviewer().review_stack(write(loot))

    assert (
        "spec.template.resources.a: is in namespace b, but a Stack can only manage objects in its own" in result.denial
    )


OPTIONS = {
    *(
        "deletionPolicy",
        "environment",
        "expiresAfter",
        "healing",
        "paused",
        "protected",
        "retry",
        "revisionHistoryLimit",
        "rollback",
    ),
    *("approval", "maxRemoved", "suspended", "timeout", "window"),
}
"""Fields that neither add an object nor change the account."""


def test_every_field_of_a_spec_defines_or_is_an_option() -> None:
    schemas = {each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"] for each in crd.make_crds()}
    stack, group = (
        set(schemas[kind]["openAPIV3Schema"]["properties"]["spec"]["properties"]) for kind in names.STACK_KINDS
    )

    # A group's own fields are reviewed in the form of a Stack's.
    assert (stack | group - set(resource_group.OWN_FIELDS)) - set(object_reviews.DEFINING_FIELDS) == OPTIONS


class Rights:
    """The author's permissions, as `verb resource name`."""

    def __init__(self, *rights: str) -> None:
        self.rights = rights

    async def may(
        self, author: Author, verb: str, resource: str, *, namespace: str, name: str = "", group: str = ""
    ) -> bool:
        if "fault" in self.rights:
            raise ApiStatusError(code=500, status=None)
        return f"{verb} {resource} {name}".strip() in self.rights


@pytest.mark.parametrize(
    ("rights", "old", "is_denied"),
    [
        ((), None, True),
        (("impersonate serviceaccounts deployer",), None, False),
        (("impersonate serviceaccounts other",), None, True),
        (("create pods",), None, False),
        (("fault",), None, True),
        ((), {}, False),
        ((), {"serviceAccountName": "other"}, True),
        ((), {"parameters": {"x": 1}}, True),
        ((), {"templateRefs": [{"kind": "ConfigMap", "name": "other"}]}, True),
    ],
    ids=[
        *(
            "none",
            "impersonates",
            "impersonates another",
            "runs Pods",
            "fault",
            "kept",
            "other account",
            "other values",
        ),
        "other sources",
    ],
)
async def test_only_who_may_use_an_account_may_name_it(rights: Any, old: Any, is_denied: bool) -> None:
    reviewer = make_reviewer()
    reviewer.author_check = AuthorCheck(Rights(*rights))
    before = None if old is None else {"template": {"resources": SOUND}, "serviceAccountName": "deployer", **old}
    result = await reviewer.review_stack(write(SOUND, old=before, serviceAccountName="deployer"))

    assert bool(result.denial) is is_denied


async def test_what_is_probably_not_meant_is_a_warning() -> None:
    resources = {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMapp"}}}
    stops = {"breakpoints": [{"resource": "typo", "at": ["PreUpdate"]}]}
    result = await make_reviewer().review_stack(write(resources, environment=stops))

    assert result.denial == ""
    assert [each.partition(":")[0] for each in result.warnings] == [
        "spec.template.resources.a",
        "spec.environment.breakpoints[0]",
    ]


async def test_a_replacement_that_loses_data_is_a_warning() -> None:
    claim = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}, "updatePolicy": {"replace": "CreateFirst"}}
    stack = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": {"template": {"resources": {}}}}
    nested = {"manifest": stack, "updatePolicy": {"replace": "CreateFirst"}}
    result = await make_reviewer().review_stack(write({"a": claim, "b": nested}))

    assert result.denial == ""
    found = [each for each in result.warnings if "updatePolicy" in each]
    assert len(found) == 1
    assert found[0].startswith("spec.template.resources.b.updatePolicy.replace: replace: CreateFirst may lose the data")


class Hanging(Cluster):
    """A cluster that never responds."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[str] = []

    async def load_schemas(self, _kinds: object) -> None:
        self.running.append("")
        await asyncio.get_running_loop().create_future()


async def test_time_allows_a_write() -> None:
    """The write is allowed after the time limit, because the API server would not wait longer either."""
    hits: list[str] = []
    result = await make_reviewer(Hanging(), seconds=0.01, hits=hits).review_stack(write(MISTAKEN))

    assert result.denial == ""
    assert "was not reviewed" in result.warnings[0]
    assert hits == ["admission-reviews"]


async def test_no_namespace_takes_all_places() -> None:
    cluster, hits = Hanging(), list[str]()
    reviewer = make_reviewer(cluster, seconds=60, hits=hits)
    tasks = [asyncio.create_task(reviewer.review_stack(write(SOUND))) for _ in range(limits.ADMISSION_PENDING // 2)]
    await waiting.wait_until(lambda: reviewer._pending == limits.ADMISSION_PENDING // 2 and bool(cluster.running))
    beyond = await reviewer.review_stack(write(SOUND))
    started = len(cluster.running)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert started == limits.ADMISSION_REVIEWS_PER_NAMESPACE
    assert "too many reviews" in beyond.warnings[0]
    assert reviewer._by_namespace == {}


@pytest.mark.parametrize(
    "fault", [ApiStatusError(code=500, status=None), RuntimeError("ours")], ids=["the API server's", "ours"]
)
async def test_a_fault_allows_a_write(fault: Exception) -> None:
    cluster = Cluster()
    cluster.fault = fault
    result = await make_reviewer(cluster).review_stack(write(MISTAKEN))

    assert (result.denial, len(result.warnings)) == ("", 1)


async def test_hostile_specs_are_answered() -> None:
    """Specs of any type and depth: a handler that raises would deny the write."""
    deep: Any = {}
    for _ in range(2000):
        deep = {"a": deep}
    spec: Any
    for spec in (
        None,
        [],
        "x",
        {"template": deep},
        {"template": 5},
        {"template": {"resources": [1]}},
        {"parameters": deep},
    ):
        raw: Any = {"metadata": {"name": "s", "namespace": "a"}, "spec": spec}
        result = await make_reviewer().review_stack(Review(new=raw, old=raw))
        assert result.denial == "", spec if not isinstance(spec, dict) else list(spec)


def test_warnings_fit_into_a_header() -> None:
    made = review_module.to_warnings("\n".join(["- " + "x" * 1000] * 50))

    assert len(made) == limits.ADMISSION_WARNINGS + 1
    assert max(map(len, made)) == limits.ADMISSION_WARNING_LENGTH
    assert made[-1] == "and 35 more"


async def test_a_kubeconfig_is_checked_and_what_its_cluster_serves_is_not() -> None:
    cluster, refused = Cluster(), errors.KubeconfigRefused("users[0].user.exec is not allowed")

    def refuse(text: str) -> None:
        assert text == "the kubeconfig"
        raise refused

    reviewer = make_reviewer(cluster)
    reviewer.check_kubeconfig = refuse
    reference = {"secretRef": {"name": "east"}}
    unserved = {"a": {"manifest": {"apiVersion": "example.com/v1", "kind": "Farm"}}}
    missing = await reviewer.review_stack(write(unserved, kubeConfig=reference))
    cluster.sources["east"] = {"value": "dGhlIGt1YmVjb25maWc="}
    wrong = await reviewer.review_stack(write(unserved, kubeConfig=reference))
    mistaken = await reviewer.review_stack(write({"a": {"manifest": {}, "unknown": 1}}, kubeConfig=reference))

    assert missing.warnings == (
        "spec.kubeConfig.secretRef: secret/east does not exist in namespace a; create it with a kubeconfig",
    )
    assert wrong.warnings == (
        "spec.kubeConfig.secretRef: the kubeconfig in secret/east: users[0].user.exec is not allowed",
    )
    assert "spec.template.resources.a" in mistaken.denial


def write_template(resources: dict[str, Any], **template: Any) -> Review:
    made = {"metadata": {"name": "web"}, "kind": "StackTemplate"}
    return Review(new={**made, "spec": {"template": {"resources": resources, **template}}})


async def test_a_template_for_all_namespaces_is_reviewed_without_values() -> None:
    needed = {"size": {"type": "integer"}}
    config = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "${string(params.size)}"}}}
    assert await make_reviewer().review(write_template({"a": config}, parameters=needed)) == ReviewResult()

    result = await make_reviewer().review(write_template({**MISTAKEN, "c": config}, parameters=needed))
    first, *others = result.denial.splitlines()
    assert first.startswith("spec.template.resources.a")
    assert first.endswith(" (1 of 2 errors; the template is not stored)")
    assert [each for each in others if "spec.parameters" in each] == []


async def test_each_kind_is_reviewed_as_what_it_is() -> None:
    reviewer = make_reviewer()
    assert (await reviewer.review(write(MISTAKEN))).denial
    mark = {"kind": "HealthMark", "metadata": {"namespace": "a"}, "spec": {"stackName": "none", "resource": "a"}}
    assert "has no Stack none" in (await reviewer.review(Review(new=mark))).denial
    snapshot = {"kind": "StackSnapshot", "metadata": {"namespace": "a"}, "spec": {"stackName": "none"}}
    assert "has no Stack none" in "".join((await reviewer.review(Review(new=snapshot))).warnings)
