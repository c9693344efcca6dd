"""Names that Hearth generates: valid for their kind, and for all that controllers derive from them."""

from __future__ import annotations

import re

import hypothesis
import pytest
from hypothesis import strategies

from hearth.model import names

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
DERIVED = {
    # The suffixes are the longest of their controllers: a time in minutes, an index, a hash of 32 bits in digits.
    "CronJob.batch": ["-" + "9" * 10],
    "Job.batch": ["-" + "9" * 10],
    "StatefulSet.apps": ["-" + "9" * 10],
}
KINDS = sorted({*names.NAME_LENGTHS, "Service", "Namespace", "Deployment.apps", "DaemonSet.apps", "Stack.hearth.dev"})
STACKS = strategies.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
RESOURCES = strategies.from_regex(r"[a-z][a-zA-Z0-9]{0,39}", fullmatch=True)
KEYS = strategies.one_of(
    strategies.just(""), strategies.from_regex(r"\[[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\]", fullmatch=True)
)


def make(stack: str, resource: str, *, kind: str, incarnation: int, namespace: str = "prod") -> str:
    """The name of an object of a Stack in the namespace `prod`."""
    return names.child_name(
        stack=stack,
        stack_namespace="prod",
        stack_uid="u1",
        resource=resource,
        incarnation=incarnation,
        namespace=namespace,
        length=names.find_length(kind),
    )


@hypothesis.given(
    stack=STACKS,
    resource=RESOURCES,
    key=KEYS,
    kind=strategies.sampled_from(KINDS),
    incarnation=strategies.integers(1, 10_000),
    namespace=strategies.sampled_from(["prod", "other", ""]),
)
def test_a_name_is_one_that_the_kind_and_its_controller_can_have(
    stack: str, resource: str, key: str, kind: str, incarnation: int, namespace: str
) -> None:
    name = make(stack, resource + key, kind=kind, incarnation=incarnation, namespace=namespace)
    assert DNS_LABEL.fullmatch(name)
    assert len(name) <= names.find_length(kind)
    for suffix in DERIVED.get(kind, ()):
        assert DNS_LABEL.fullmatch(name + suffix)
    assert name != make(stack, resource + key, kind=kind, incarnation=incarnation + 1, namespace=namespace)


@hypothesis.given(stack=STACKS, resources=strategies.lists(RESOURCES, min_size=2, max_size=2, unique_by=names.kebab))
def test_what_is_cut_stays_apart(stack: str, resources: list[str]) -> None:
    one, other = (make(stack, each, kind="CronJob.batch", incarnation=1) for each in resources)
    assert one != other


@pytest.mark.parametrize("kind", ["Deployment.apps", "Service", "ConfigMap"])
def test_other_kinds_have_the_names_that_they_had(kind: str) -> None:
    assert make("s" * 40, "web", kind=kind, incarnation=1) == "s" * 40 + "-web"
    assert make("s" * 40, "w" * 40, kind=kind, incarnation=1) == names.shorten(f"{'s' * 40}-{'w' * 40}", length=63)
