"""Random edits on a real API server: the actual changes equal the preview."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hearth.cli.stack_access import dry_runs, stack_previews
from hearth.cli.stack_access.dry_runs import DryRunCluster
from hearth.cli.stack_access.session import Session
from hearth.model.child import Object
from hearth.model.tenancy import Tenancy
from hearth.model.well_known_kinds import STACK
from hearth.preview.changes import Action, Preview
from support.fake_world import preview_of
from support.fake_world.preview_of import Seen
from support.real.real_world import RealWorld
from support.stateful import preview_session, random_templates
from support.stateful.random_templates import Drafts, Edit
from support.stories import stack_manifests

SEED = 13
EDITS = 4
KINDS = ("Probe", "ConfigMap", "PersistentVolumeClaim")
QUICK = tuple(what for what in preview_session.KNOWN_EDITS if what not in ("readyAfter", "deleteAfter"))
ENVIRONMENTS = (
    preview_session.make_environment((), ()),
    preview_session.make_environment(
        [{"resource": "b", "word": "PreUpdate"}, {"resource": "c", "word": "PreDelete"}], ()
    ),
    preview_session.make_environment((), [{"resource": "a", "word": "Update"}]),
    preview_session.make_environment((), ()),
)


def choose_edit(chance: random.Random, edits: tuple[str, ...]) -> Edit:
    return Edit(
        what=chance.choice(edits), at=chance.randrange(8), other=chance.randrange(8), number=chance.randrange(8)
    )


def make_spec(drafts: Drafts, environment: Object) -> Object:
    """The spec of these drafts, with probes that are ready at once. Claims are never bound here."""
    quick = {
        name: replace(draft, ready_after=0, kind="config" if draft.kind == "claim" else draft.kind)
        for name, draft in drafts.items()
    }
    return {"template": random_templates.make_template(quick), "environment": environment}


async def preview_of_spec(session: Session, namespace: str, spec: Object) -> Preview:
    cluster = DryRunCluster(session, namespace=namespace)
    stated = {"metadata": {"name": "shop", "namespace": namespace}, "spec": spec}
    present = await session.find(STACK, namespace, "shop")
    wanted = await dry_runs.try_file(cluster, stated, present)
    return await stack_previews.make_preview(session, present=present, wanted=wanted, tenancy=Tenancy(), beside={})


@pytest.mark.long
async def test_every_preview_comes_true(world: RealWorld) -> None:
    chance, user = random.Random(SEED), world.user
    session = Session(user.connection)
    address = stack_manifests.address_in(user.namespace)
    drafts = random_templates.build([choose_edit(chance, ("add",)) for _ in range(6)])
    before = Seen(objects={})
    said: set[Action] = set()
    await world.start_controller()
    for environment in ENVIRONMENTS:
        spec = make_spec(drafts, environment)
        preview = await preview_of_spec(session, user.namespace, spec)
        said |= {each.action for each in preview.changes}
        if before.objects or await user.find(address):
            await user.replace_spec(address, spec)
        else:
            await user.create(stack_manifests.make_stack(spec, namespace=user.namespace))

        async def compare(preview: Preview = preview, before: Seen = before) -> list[str]:
            stack = await user.find(address)
            assert stack is not None
            after = await see(world, stack)
            return preview_of.find_disagreements(preview, before, after, stack.get("status") or {})

        wrong = await world.wait_rest(compare)
        assert wrong == [], f"{wrong}\n{preview_of.show(preview)}\n{spec}"
        stack = await user.find(address)
        assert stack is not None
        before = await see(world, stack)
        for _ in range(EDITS):
            drafts = random_templates.edit(drafts, choose_edit(chance, QUICK))
    assert said >= {Action.CREATE, Action.UPDATE, Action.DELETE, Action.STOP, Action.FAIL}, "another seed says more"


async def see(world: RealWorld, stack: Object) -> Seen:
    """The objects of the Stack."""
    found = await world.user.find_children(stack["metadata"]["uid"], KINDS)
    return Seen(objects={raw["metadata"]["uid"]: raw for raw in found})
