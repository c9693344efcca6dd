"""A StackDefinition and its instances on a real API server, with the operator as a process and kopf in it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hearth.model import errors
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION, STACK_DEFINITION
from support.real import definition_leftovers
from support.real.operator_fleet import PATIENCE, Crew
from support.real.real_user import RealUser
from support.real.real_world import POLL
from support.real.stack_command import StackCommand
from support.real.user_shell import Paster

GROUP = "platform.example"
SITE = Kind(group=GROUP, version="v1alpha1", name="Site", plural="sites", namespaced=True)
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
NAME = f"{SITE.plural}.{GROUP}"
COUNT = 12
CANARIES = 2
MANY = 200
FIRST = 10
"""Number of instances in the first wave."""


def make_definition(data: dict[str, str], kind: Kind = SITE) -> dict[str, Any]:
    """The kind of sites; each instance is a ConfigMap with these data and its title."""
    page = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"title": "${params.title}", **data}}
    return {
        "apiVersion": STACK_DEFINITION.api_version,
        "kind": STACK_DEFINITION.name,
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind.name, "plural": kind.plural},
            "versions": [{"name": kind.version}],
            "template": {
                "parameters": {"title": {"type": "string", "maxLength": 20}},
                "resources": {"page": {"manifest": page}},
                "outputs": {"page": {"value": "${page.metadata.name}"}},
            },
            "columns": [{"name": "Page", "output": "page"}],
            "defaults": {"retry": {"limit": 1}},
            "rollout": {
                "waves": [{"name": "canary", "select": {"matchLabels": {"tier": "canary"}}}],
                "maxUnavailable": 3,
                "onFailure": "Rollback",
            },
        },
    }


def make_site(namespace: str, index: int, canaries: int = CANARIES) -> dict[str, Any]:
    tier = "canary" if index < canaries else "usual"
    return {
        "apiVersion": SITE.api_version,
        "kind": SITE.name,
        "metadata": {"name": f"site-{index}", "namespace": namespace, "labels": {"tier": tier}},
        "spec": {"title": f"Site {index}"},
    }


class Cluster:
    """The test's actions on the API server."""

    def __init__(self, user: RealUser) -> None:
        self.user = user

    async def replace_spec(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Replace the spec of the definition, whose status changes at any time; return the old spec."""
        while True:
            live = await self.user.send("GET", STACK_DEFINITION, NAME)
            try:
                await self.user.send("PUT", STACK_DEFINITION, NAME, body={**live, "spec": spec})
            except errors.ApiStatusError as error:
                if error.code != 409:
                    raise
            else:
                return live

    async def list_pages(self) -> dict[str, tuple[str, str]]:
        """UID and version of the object of each instance, by name."""
        found = await self.user.send("GET", CONFIG_MAP, query={"labelSelector": "hearth.dev/resource=page"})
        metadata = [each["metadata"] for each in found["items"]]
        return {each["name"]: (each["uid"], each["resourceVersion"]) for each in metadata}

    async def list_versions(self, kind: Kind) -> dict[str, str]:
        """The version of each object of a kind, by name."""
        found = await self.user.send("GET", kind)
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found["items"]}

    async def delete_all(self, kind: Kind) -> None:
        """Delete all objects of a kind, at once."""
        await self.user.send("DELETE", kind)

    async def wait_gone(self, kind: Kind, name: str) -> None:
        """Wait until an object does not exist."""
        async with asyncio.timeout(2 * PATIENCE):
            while await self.user.find_named(kind, name) is not None:  # noqa: ASYNC110 -- another process decides, there is no event
                await asyncio.sleep(POLL)

    async def wait(
        self, holds: Callable[[dict[str, Any]], bool], kind: Kind = STACK_DEFINITION, name: str = NAME
    ) -> None:
        """Wait until the condition holds for the status of an object."""
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(2 * PATIENCE):
                while True:
                    found = (await self.user.find_named(kind, name) or {}).get("status") or {}
                    if found and holds(found):
                        return
                    await asyncio.sleep(POLL)
        except TimeoutError:
            state = await definition_leftovers.describe(self.user.connection)
            raise AssertionError(f"{name} is not so: {found}{state}") from None


def find_rollout(status: dict[str, Any]) -> dict[str, Any]:
    return status.get("rollout") or {}


def find_reason(status: dict[str, Any]) -> str:
    return next((each["reason"] for each in status.get("conditions") or () if each["type"] == "Ready"), "")


def is_at(status: dict[str, Any], revision: int) -> bool:
    """Whether the status describes that revision's rollout."""
    return bool(find_rollout(status).get("revision") == revision)


Pages: TypeAlias = "dict[str, tuple[str, str]]"


async def keep_a_kind_of_another_client(cluster: Cluster) -> None:
    """A kind that another client created is never taken over."""
    other = Kind(group=GROUP, version="v1alpha1", name="Other", plural="others", namespaced=True)
    name = f"{other.plural}.{GROUP}"
    version = {
        "name": other.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    crd = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.name,
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": other.name, "plural": other.plural},
            "versions": [version],
        },
    }
    made = await cluster.user.send("POST", CUSTOM_RESOURCE_DEFINITION, body=crd)
    await cluster.user.send("POST", STACK_DEFINITION, body=make_definition({}, other))
    await cluster.wait(lambda status: find_reason(status) == "KindTaken", name=name)
    await cluster.user.send("DELETE", STACK_DEFINITION, name)
    await cluster.wait_gone(STACK_DEFINITION, name)
    kept = await cluster.user.send("GET", CUSTOM_RESOURCE_DEFINITION, name)
    assert (kept["metadata"]["uid"], kept["spec"]) == (made["metadata"]["uid"], made["spec"])
    await cluster.user.send("DELETE", CUSTOM_RESOURCE_DEFINITION, name)


async def make_sites(cluster: Cluster, namespace: str) -> Pages:
    """Create the kind and its instances; return the results."""
    await cluster.user.send("POST", STACK_DEFINITION, body=make_definition({"layout": "one"}))
    await cluster.wait(lambda status: find_reason(status) == "Complete")
    for index in range(COUNT):
        await cluster.user.send("POST", SITE, body=make_site(namespace, index))
    await cluster.wait(lambda status: find_rollout(status).get("ready") == COUNT)
    site = await cluster.user.send("GET", SITE, "site-0")
    assert site["status"]["outputs"] == {"page": "site-0-page"}
    assert site["status"]["definitionRevision"] == 1
    with pytest.raises(errors.ApiStatusError, match="title"):
        # The schema equals the parameters' schema.
        await cluster.user.merge(SITE, "site-0", {"spec": {"title": "a title that is too long"}})
    return await cluster.list_pages()


async def change_badly(cluster: Cluster, pages: Pages) -> None:
    """A change that breaks the first wave is rolled back, and invalid changes touch no object."""
    await cluster.user.merge(STACK_DEFINITION, NAME, {"spec": make_definition({"not a key!": "x"})["spec"]})
    await cluster.wait(lambda status: find_rollout(status).get("phase") == "RolledBack")
    assert await cluster.list_pages() == pages
    bad = await cluster.user.send("GET", STACK_DEFINITION, NAME)
    assert bad["status"]["rollout"]["completed"] == 1

    await cluster.user.merge(STACK_DEFINITION, NAME, {"spec": make_definition({"more": "${params.titel}"})["spec"]})
    await cluster.wait(lambda status: find_reason(status) == "InvalidDefinition")
    assert await cluster.list_pages() == pages


async def restore_an_instance(cluster: Cluster, stack: StackCommand) -> None:
    """A StackSnapshot stores a revision of one instance, and restores it."""
    taken = await stack.expect("snapshot", "site/site-2", "--name", "before", "--wait", "--timeout=60s")
    assert "contains revision 1 of Site site-2" in taken, taken
    assert "is one of Site site-2, not of site/site-3" in await stack.expect("restore", "site/site-3", "before", code=1)
    await cluster.user.merge(SITE, "site-2", {"spec": {"title": "another"}})
    await cluster.wait(
        lambda status: status.get("revision") == 2 and status["phase"] == "UpdateComplete", SITE, "site-2"
    )
    await stack.expect("restore", "site/site-2", "before", "--wait", "--timeout=60s")
    restored = await cluster.user.send("GET", CONFIG_MAP, "site-2-page")
    assert restored["data"]["title"] == "Site 2"
    await cluster.user.merge(SITE, "site-2", {"spec": {"title": "Site 2", "stack": {"rollback": None}}})
    await cluster.wait(lambda status: status.get("phase") == "UpdateComplete", SITE, "site-2")


async def steer_an_instance(cluster: Cluster, paster: Paster) -> None:
    """`kubectl stack` takes an instance wherever it takes a Stack."""
    stack = paster.stack
    assert "site/site-0" in await stack.expect("list")
    assert "page" in await stack.expect("tree", "site/site-0")
    assert "nothing is wrong" in await stack.expect("why", f"{SITE.plural}.{GROUP}/site-0")
    assert "no resource 'nothing'" in await stack.expect("why", "site/site-0/nothing", code=1)
    assert "no Stack type 'spot'" in await stack.expect("tree", "spot/site-0", code=1)
    paused = await stack.expect("pause", "site/site-0")
    assert paused.startswith(f"site.{GROUP}/site-0 patched: spec.stack.paused=true"), paused
    await cluster.wait(lambda status: "paused" in status.get("state", ""), SITE, "site-0")
    assert "timed out" in await stack.expect("wait", "site/site-0", "--for=stopped", "--timeout=1s", code=1)
    await stack.expect("unpause", "site/site-0", "--wait", "--timeout=60s")
    checked = await stack.expect("check", "sites/site-0", "--wait", "--timeout=60s")
    assert f"site.{GROUP}/site-0 annotated: hearth.dev/check=" in checked
    history = await stack.expect("history", "site/site-0")
    assert [line.split()[:3] for line in history.splitlines()] == [
        ["REVISION", "DEFINITION", "STATUS"],
        ["1", "1", "active,"],
    ]
    assert "kind: ConfigMap" in await stack.expect("export", "site/site-0")
    assert "site-0-page" in await stack.expect("graph", "site/site-0")

    await restore_an_instance(cluster, stack)

    before = await cluster.list_pages()
    assert "is not marked" in await stack.expect("unmark", "site/site-1", "page")
    marked = await stack.expect("mark", "site/site-1", "page", "--reason", "stale", "--wait", "--timeout=60s")
    assert "page is unhealthy: stale" in marked
    after = await cluster.list_pages()
    assert len(after) == COUNT
    assert {uid for uid, _ in before.values()} - {uid for uid, _ in after.values()} == {before["site-1-page"][0]}


async def preview_a_change(cluster: Cluster, pages: Pages, paster: Paster, folder: Path) -> None:
    """`diff` lists the changes per instance and the instances that do not fit; it writes nothing."""
    file = folder / "definition.json"

    async def diff(definition: dict[str, Any], *, code: int) -> str:
        file.write_text(json.dumps(definition))
        return await paster.stack.expect("diff", "-f", str(file), code=code)

    assert f"0 of {COUNT} objects change" in await diff(make_definition({"layout": "one"}), code=0)
    changed = await diff(make_definition({"layout": "${params.title}"}), code=1)
    assert f"{COUNT} of {COUNT} objects change" in changed
    assert "1 object: " in changed
    changed = await diff(make_definition({"layout": "two"}), code=1)
    # The object of the replaced instance has another name.
    assert f"{COUNT - 1} objects: {paster.stack.namespace}/site-0, " in changed
    assert f"1 object: {paster.stack.namespace}/site-1\n" in changed
    assert "data.layout: one" in changed
    assert "data.layout: two" in changed
    assert changed.count("~ change") == 2, changed
    stricter = make_definition({"layout": "one"})
    stricter["spec"]["template"]["parameters"]["title"]["maxLength"] = 6
    unfit = await diff(stricter, code=2)
    assert f"{paster.stack.namespace}/site-10: spec.title" in unfit
    assert "site-1:" not in unfit
    mistaken = await diff(make_definition({"more": "${params.titel}"}), code=2)
    assert "spec.template.resources.page.manifest.data.more" in mistaken
    assert await cluster.list_pages() == pages


async def preview_instances(cluster: Cluster, pages: Pages, paster: Paster, folder: Path) -> None:
    """`diff` of instances in a file shows their objects and all their mistakes, with the definition of the same file."""
    file, namespace = folder / "instances.yaml", paster.stack.namespace

    async def diff(*documents: dict[str, Any], code: int) -> str:
        file.write_text("\n---\n".join(json.dumps(each) for each in documents))
        return await paster.stack.expect("diff", "-f", str(file), code=code)

    def make(index: int, **spec: Any) -> dict[str, Any]:
        return {**make_site(namespace, index), "spec": spec}

    assert "no change" in await diff(make_site(namespace, 5), code=0)
    assert "data.title: other" in await diff(make(5, title="other"), code=1)
    assert "configmap/site-99-page" in await diff(make(99, title="new"), code=1)
    wrong = await diff(make(5, title="x" * 21, titel=1), make(6), code=2)
    mistakes = ("site-5: spec.title:", "site-5: spec.titel:", "site-6: spec.title:")
    assert [each for each in mistakes if f"site/{each}" not in wrong] == [], wrong
    unserved = await diff({**make(5), "kind": "Database"}, code=2)
    assert "no StackDefinition of the cluster or the files has the kind Database" in unserved

    changed = make_definition({"layout": "${params.look}"})
    changed["spec"]["template"]["parameters"]["look"] = {"type": "string", "default": "plain"}
    both = await diff(changed, make(5, title="other", look="fancy"), code=1)
    assert f"{COUNT} of {COUNT} objects change" in both
    assert "data.layout: fancy" in both
    entries = json.loads((await paster.stack.run("diff", "-f", str(file), "-o", "json")).stdout)
    assert [each["kind"] for each in entries] == ["StackDefinition", *[f"{SITE.name}.{GROUP}"] * (COUNT + 1)]
    books = make_definition({}, kind=dataclasses.replace(SITE, name="Book", plural="books"))
    book = {**make(1, title="new"), "kind": "Book"}
    assert "configmap/site-1-page" in await diff(books, book, code=1)
    assert "spec.title: is missing" in await diff(books, {**book, "spec": {}}, code=2)
    assert await cluster.list_pages() == pages


async def show_history(cluster: Cluster, paster: Paster) -> None:
    """The revisions of the definition so far: the second and the third were rolled back."""
    stack = paster.stack
    history = await stack.expect("rollout", "history", "sites")
    rows = [line.split() for line in history.splitlines()]
    if [row[0] for row in rows] != ["REVISION", "1", "2", "3"]:
        raise AssertionError(history + await definition_leftovers.describe(cluster.user.connection))
    assert "completed" in rows[1]
    assert "failed" in rows[3]
    assert "not a key!" in await stack.expect("rollout", "history", "sites", "1", "3")
    assert "has no revision 9" in await stack.expect("rollout", "history", "sites", "9", code=1)


async def steer_a_rollout(cluster: Cluster, pages: Pages, paster: Paster) -> None:
    """The rollout stops with a message that suggests a command; it is rolled back, restarted, and paused."""
    stack = paster.stack
    spec = make_definition({"not a key!": "y"})["spec"]
    spec["rollout"]["onFailure"] = "Stop"
    await cluster.replace_spec(spec)
    stopped = await stack.expect("rollout", "status", "site", "--timeout=60s", code=1)
    assert "no further instances are changed" in stopped
    offered = re.search(r"kubectl stack (why site/site-\d+) -n", stopped)
    assert offered is not None, stopped
    assert "Invalid value" in await stack.expect(*offered[1].split(), code=1)
    await paster.paste(stopped, rf"kubectl stack rollout undo {NAME}")
    await cluster.wait(lambda status: find_rollout(status).get("phase") == "RolledBack")
    assert await cluster.list_pages() == pages

    back = await stack.expect("rollout", "status", NAME, "--timeout=60s", code=1)
    await paster.paste(back, rf"kubectl stack rollout restart {NAME}")
    again = await stack.expect("rollout", "status", "sites", "--timeout=60s", code=1)
    assert "no further instances are changed" in again
    assert "the rollout is not in a pause after a wave" in await stack.expect("rollout", "promote", "sites", code=1)

    await show_history(cluster, paster)
    await stack.expect("rollout", "pause", "sites")
    await cluster.replace_spec(make_definition({"layout": "one"})["spec"])
    await cluster.wait(lambda status: find_rollout(status).get("phase") == "Paused")
    assert "timed out" in await stack.expect("rollout", "status", "sites", "--timeout=1s", code=1)
    await stack.expect("rollout", "resume", "sites")
    assert f"{COUNT} of {COUNT} instances run revision" in await stack.expect(
        "rollout", "status", "sites", "--timeout=60s"
    )
    assert "already has revision" in await stack.expect("promote", "site/site-0")
    assert await cluster.list_pages() == pages


async def test_a_definition_from_its_creation_to_its_end(
    user: RealUser, definers: Crew, paster: Paster, tmp_path: Path
) -> None:
    cluster = Cluster(user)
    await definition_leftovers.clear(user.connection, GROUP)
    operator = await definers.hire(f"--definition-groups={GROUP}")
    await keep_a_kind_of_another_client(cluster)
    pages = await make_sites(cluster, user.namespace)
    assert len(pages) == COUNT
    await steer_an_instance(cluster, paster)
    pages = await cluster.list_pages()
    await preview_a_change(cluster, pages, paster, tmp_path)
    await preview_instances(cluster, pages, paster, tmp_path)
    await change_badly(cluster, pages)
    await steer_a_rollout(cluster, pages, paster)

    # A good change reaches all instances, even if the operator is killed in between.
    live = await cluster.replace_spec(make_definition({"layout": "two"})["spec"])
    newest = live["status"]["revision"] + 1
    await cluster.wait(lambda status: is_at(status, newest) and find_rollout(status)["updated"] > 0)
    await operator.kill()
    await definers.hire(f"--definition-groups={GROUP}", "--ignore-leader")
    await cluster.wait(lambda status: is_at(status, newest) and find_rollout(status)["ready"] == COUNT)
    await cluster.wait(lambda status: find_reason(status) == "Complete")
    changed = await cluster.list_pages()
    assert {name: uid for name, (uid, _) in changed.items()} == {name: uid for name, (uid, _) in pages.items()}
    found = await cluster.user.send("GET", CONFIG_MAP, "site-11-page")
    assert found["data"] == {"title": "Site 11", "layout": "two"}
    assert "data.layout: two" in await paster.stack.expect("diff", "site/site-11", "--to", "1", code=1)

    # A definition with instances is not deleted; the kind is deleted after the last instance.
    await cluster.user.send("DELETE", STACK_DEFINITION, NAME)
    await cluster.wait(lambda status: find_reason(status) == "DeletionBlocked")
    for index in range(COUNT):
        await cluster.user.send("DELETE", SITE, f"site-{index}")
    await cluster.wait_gone(STACK_DEFINITION, NAME)
    assert await cluster.user.find_named(CUSTOM_RESOURCE_DEFINITION, NAME) is None
    assert await cluster.list_pages() == {}


async def test_a_change_that_breaks_the_first_wave_touches_no_other_of_many_instances(
    user: RealUser, definers: Crew
) -> None:
    cluster = Cluster(user)
    await definition_leftovers.clear(user.connection, GROUP)
    await definers.hire(f"--definition-groups={GROUP}")
    definition = make_definition({"layout": "one"})
    definition["spec"]["rollout"]["maxUnavailable"] = FIRST
    await cluster.user.send("POST", STACK_DEFINITION, body=definition)
    await cluster.wait(lambda status: find_reason(status) == "Complete")
    for index in range(MANY):
        await cluster.user.send("POST", SITE, body=make_site(user.namespace, index, FIRST))
    await cluster.wait(lambda status: find_rollout(status).get("ready") == MANY)
    before, versions = await cluster.list_pages(), await cluster.list_versions(SITE)
    assert len(before) == len(versions) == MANY

    await cluster.replace_spec(
        {**definition["spec"], "template": make_definition({"not a key!": "x"})["spec"]["template"]}
    )
    await cluster.wait(lambda status: find_rollout(status).get("phase") == "RolledBack")
    assert await cluster.list_pages() == before
    after = await cluster.list_versions(SITE)
    touched = {name for name, version in after.items() if version != versions[name]}
    assert touched == {f"site-{index}" for index in range(FIRST)}

    await cluster.delete_all(SITE)
    await cluster.user.send("DELETE", STACK_DEFINITION, NAME)
    await cluster.wait_gone(STACK_DEFINITION, NAME)


def refer_to_template(definition: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Move the template to a ConfigMap, and return it with two more outputs."""
    template: dict[str, Any] = definition["spec"].pop("template")
    template["outputs"] |= {"layout": {"value": "one"}, "size": {"value": 1}}
    definition["spec"] |= {
        "templateRefs": [{"name": "sites", "key": "site.json"}],
        "templateNamespace": namespace,
    }
    return template


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"templateNamespace": None}, "templateNamespace is the namespace of the ConfigMaps in templateRefs"),
        ({"template": {"resources": {}}}, "set exactly one of template and templateRefs"),
        (
            {"account": {"namespace": "elsewhere", "name": "definer"}},
            "with account, templateNamespace must be the account's namespace",
        ),
    ],
)
async def test_where_a_template_may_be(user: RealUser, stated: dict[str, Any], message: str) -> None:
    definition = make_definition({})
    refer_to_template(definition, user.namespace)
    definition["spec"] |= stated
    with pytest.raises(errors.ApiStatusError, match=message):
        await user.send("POST", STACK_DEFINITION, body=definition)


async def test_a_definition_whose_template_is_in_a_config_map(user: RealUser, definers: Crew) -> None:
    cluster = Cluster(user)
    await definition_leftovers.clear(user.connection, GROUP)
    await definers.hire(f"--definition-groups={GROUP}")
    definition = make_definition({"layout": "one"})
    template = refer_to_template(definition, user.namespace)
    await cluster.user.send("POST", STACK_DEFINITION, body=definition)
    await cluster.wait(lambda status: find_reason(status) == "SourceNotFound")

    source = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sites"}}
    await cluster.user.send("POST", CONFIG_MAP, body={**source, "data": {"site.json": json.dumps(template)}})
    await cluster.wait(lambda status: find_reason(status) == "Complete")
    await cluster.user.send("POST", SITE, body=make_site(user.namespace, 0))
    await cluster.wait(lambda status: find_rollout(status).get("ready") == 1)
    assert await find_output_types(cluster) == {"page": "string", "layout": "string", "size": "integer"}

    template["outputs"]["layout"]["value"] = 2
    await cluster.user.merge(CONFIG_MAP, "sites", {"data": {"site.json": json.dumps(template)}})
    await cluster.wait(lambda status: is_at(status, 2) and find_reason(status) == "Complete")
    site = await cluster.user.send("GET", SITE, "site-0")
    assert site["status"]["outputs"] == {"page": "site-0-page", "layout": 2, "size": 1}
    assert await find_output_types(cluster) == {"page": "string", "layout": None, "size": "integer"}

    await cluster.delete_all(SITE)
    await cluster.user.send("DELETE", STACK_DEFINITION, NAME)
    await cluster.wait_gone(STACK_DEFINITION, NAME)


async def find_output_types(cluster: Cluster) -> dict[str, str | None]:
    """The types of the outputs in the schema of the kind; None for any."""
    crd = await cluster.user.send("GET", CUSTOM_RESOURCE_DEFINITION, NAME)
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    return {name: each.get("type") for name, each in status["outputs"]["properties"].items()}


async def test_several_shards_serve_the_instances_of_one_definition(user: RealUser, definers: Crew) -> None:
    cluster = Cluster(user)
    await definition_leftovers.clear(user.connection, GROUP)
    flags = ("--leader-election", "--shards=2", f"--definition-groups={GROUP}")
    operators = await asyncio.gather(*(definers.hire(*flags, f"--shard={index}") for index in range(2)))
    await make_sites(cluster, user.namespace)
    own = [await asyncio.to_thread(each.read_metric, "hearth_stacks") for each in operators]
    assert sum(own) == COUNT
    assert min(own) > 0, "each has some"

    await cluster.replace_spec(make_definition({"layout": "two"})["spec"])
    await cluster.wait(lambda status: is_at(status, 2) and find_reason(status) == "Complete")
    pages = (await cluster.user.send("GET", CONFIG_MAP, query={"labelSelector": "hearth.dev/resource=page"}))["items"]
    assert [each["data"]["layout"] for each in pages] == ["two"] * COUNT

    await cluster.delete_all(SITE)
    await cluster.user.send("DELETE", STACK_DEFINITION, NAME)
    await cluster.wait_gone(STACK_DEFINITION, NAME)
    assert [each.find_complaints() for each in operators] == [[], []]
