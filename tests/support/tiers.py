"""Divides the tests between `make test` and `make test-more`, and chooses those of `make test-versions`.

Only this module sets the marks `more` and `versions`.

`make test` has all quick tests: checks, units, each story in one of its settings and disturbed at some writes, and on a
real server the contract tests and a smoke set. `-m more` has all others, except those that take minutes (`LONG` in
`tests/conftest.py`). A pytest plugin.
"""

from __future__ import annotations

import zlib

import pytest

from support import repository

MORE, VERSIONS = "more", "versions"
SETTINGS = (
    "test_story_with_the_work_divided",
    "test_story_as_an_account",
    "test_story_with_events_out_of_time[early]",
    "test_story_with_events_out_of_time[late]",
)
"""Additional settings for playing stories. They are independent, so each story gets one of them."""
DISTURBED = ("test_restart_at_the_end_writes_nothing",)
DISTURBED_FRACTION = 8
"""One story in eight is disturbed and restarted in `make test`."""
NOTICING = frozenset({"test_story_with_events_out_of_time[finished-deleted-late]"})
"""Settings that let a story detect a broken rule that no other test detects; see tests/mutants/rules.yaml."""
SLOW = frozenset(
    {
        "test_every_target_comes_true_in_a_tree", "test_every_target_comes_true_after_an_adversary",
        "test_restart_after_a_change_of_one_of_many_writes_nothing",
        "test_the_slowest_edits_beside_a_hostile_tenant_are_hardly_slower",
        "test_what_an_object_costs_in_a_day_hardly_grows", "test_story_with_instances_disturbed_at_some_writes",
    }
)  # fmt: skip
"""Tests without a server that take ten seconds of CPU each, or minutes with all their stories. `make test` runs a
faster variant of each."""
SMOKE_FOLDERS = ("contract",)
"""Tests on a real server that verify the fake server."""
SMOKE_STORIES = frozenset(
    {
        "C14-update-replace", "M01-mark-by-name", "P01-suspend-and-resume", "adopt", "breakpoint-create",
        "collection-rollback", "create", "create-fails-and-recovers", "finished-group", "keep-claims",
        "mark-keep-claims", "replace-delete-first", "restricted-rollback", "retain-removed", "rollback-by-user", "tree-handover",
    }
)  # fmt: skip
"""Stories on a real server that together contain every type of step."""
VERSIONED = (
    "contract/", "integration/api/test_crd.py", "integration/api/test_install.py", "integration/kube/",
    "integration/operator/test_stack_definitions.py", "integration/plan/",
)  # fmt: skip
"""Tests that depend on the behavior of the API server. `make test-versions` runs them and the smoke set on several versions
of Kubernetes. The other tests of `integration/api` compare with one version, or need it.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make test` leaves to `make test-more`, and those of `make test-versions`."""
    for item in items:
        place = item.path.relative_to(repository.TESTS).as_posix()
        if is_more(place, item):
            item.add_marker(MORE)
        if is_versioned(place, item):
            item.add_marker(VERSIONS)


def is_more(place: str, item: pytest.Item) -> bool:
    """Return whether the test belongs to `make test-more`."""
    if item.get_closest_marker("cluster") is not None:
        return place.partition("/")[0] not in SMOKE_FOLDERS and not is_smoke(place, item)
    return item.name.partition("[")[0] in SLOW or is_spare(item)


def is_versioned(place: str, item: pytest.Item) -> bool:
    """Return whether the test belongs to `make test-versions`."""
    is_real = item.get_closest_marker("cluster") is not None
    return is_real and (place.startswith(VERSIONED) or is_smoke(place, item))


def is_smoke(place: str, item: pytest.Item) -> bool:
    """Return whether a test on a real server belongs to the smoke set."""
    return place == "integration/operator/test_stories.py" and find_story(item) in SMOKE_STORIES


def is_spare(item: pytest.Item) -> bool:
    """Return whether another test plays the same story in `make test`, in a setting that is as good."""
    function, story = item.name.partition("[")[0], find_story(item)
    chosen = zlib.crc32(story.encode())
    if function in DISTURBED:
        return chosen % DISTURBED_FRACTION != 0
    settings = [each for each in SETTINGS if each.partition("[")[0] == function]
    if not settings or item.name in NOTICING:
        return False
    setting = next((each for each in settings if "[" not in each or each.partition("[")[2][:-1] in item.name), "")
    return SETTINGS[chosen % len(SETTINGS)] != setting


def find_story(item: pytest.Item) -> str:
    """Return the name of the story that the test plays; "" if it plays none."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return str(getattr(parameters.get("played"), "slug", ""))
