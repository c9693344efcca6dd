"""Stories in each tenancy mode, with exactly the rights that its installation grants; the audit log is checked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hearth.model.tenancy import Mode
from support.stories import story, story_runner
from support.stories.story import Story
from support.threats import audit_log, installation, mode_world
from support.threats.audit_log import AuditLog
from support.threats.mode_world import Rights
from support.threats.slots import Slots
from support.threats.world import LABEL

TOGETHER = 12
"""Concurrent stories: they mostly wait."""
CLUSTER_WIDE = frozenset({"Latecomer", "Newcomer"})
"""Kinds whose definitions a story changes for all other stories."""
OPERATOR_WIDE = frozenset({"P04-suspend-timeout", "health-rules", "health-scripts"})
"""Stories with health rules, which are in the operator's namespace: all operators here share one."""
MODES = {
    "isolated": Rights(mode=Mode.ISOLATED, variant="install", account=None),
    "isolated-with-accounts": Rights(mode=Mode.ISOLATED, variant="install", account=mode_world.ACCOUNT),
    "strict": Rights(mode=Mode.STRICT, variant="strict", account=mode_world.ACCOUNT),
    "trusted": Rights(mode=Mode.TRUSTED, variant="install", account=None),
}
SET = (
    *(
        "C13-update-remove-rollback",
        "C14-update-replace",
        "M01-mark-by-name",
        "M14-mark-nested",
        "P01-suspend-and-resume",
    ),
    *("abandon", "adopt-all", "check-drift", "drift-by-change", "drift-scaled", "foreign-item", "immutable-field"),
    *(
        "name-taken",
        "nested-delete",
        "parameters-from",
        "restricted-delete-stack",
        "retain-removed",
        "rollback-by-user",
    ),
    *("sensitive", "update"),
)
"""One story for each kind of request about a child or a source."""
STORIES = {
    played.slug: played
    for played in story.load_all()
    if "fake" not in played.needs
    and played.tenancy is Mode.ISOLATED
    and not CLUSTER_WIDE & played.kinds
    and played.slug not in OPERATOR_WIDE
}


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
async def test_stories_need_no_more_than_the_rights_of_their_mode(mode: str, slots: Slots, tmp_path: Path) -> None:
    await play([STORIES[slug] for slug in SET], MODES[mode], slots, tmp_path)


CONFINED = frozenset({"isolated", "isolated-later"})
"""Stories of refusals that apply only to isolated Stacks without an account.

For other Stacks, the API server decides.
"""


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
async def test_all_stories_need_no_more_than_the_rights_of_their_mode(mode: str, slots: Slots, tmp_path: Path) -> None:
    rights = MODES[mode]
    is_confined = rights.mode is Mode.ISOLATED and rights.account is None
    left_out = () if is_confined else CONFINED
    await play([each for slug, each in STORIES.items() if slug not in left_out], rights, slots, tmp_path)


async def play(stories: list[Story], rights: Rights, slots: Slots, folder: Path) -> None:
    """Play these stories, some at a time; raises all their failures together."""
    with slots.take() as kubeconfig:
        api = installation.connect(kubeconfig)
        installation.install(api, rights.variant)
        mode_world.prepare_cluster(api, rights)
        operator = installation.write_operator_kubeconfig(api, kubeconfig, folder / "kubeconfig")
        log, places = AuditLog(audit_log.find(kubeconfig)), asyncio.Semaphore(TOGETHER)

        async def perform(played: Story) -> None:
            async with places:
                metadata = {"generateName": "mode-", "labels": {LABEL: "true"}}
                made = api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
                namespace = str(made["metadata"]["name"])
                async with mode_world.opened(api, kubeconfig, operator, namespace=namespace, rights=rights) as world:
                    # With so many concurrent stories, an intermediate state that a story expects may be over when it is
                    # checked.
                    await story_runner.Play(played, world, is_strict=False).perform()

        found = await asyncio.gather(*(perform(played) for played in stories), return_exceptions=True)
        wrong = [f"{played.slug}: {each}" for played, each in zip(stories, found, strict=True) if each is not None]
        assert wrong == []
        own = mode_world.find_own_requests(log.read())
        # Without an account, the log must show the requests that it must not show with one.
        assert (own == []) if rights.account is not None else ("patch configmaps" in " ".join(own))
