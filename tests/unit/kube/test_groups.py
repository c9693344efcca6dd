"""ResourceGroups as the engine sees them: Stacks of another kind, with paths, owners and Events of their own."""

from __future__ import annotations

from hearth.engine.cluster_objects import Revision
from hearth.kube.cache import stack_cache
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.management_cluster import KubeManagementCluster
from hearth.kube.objects import controller_revision, event_recorder
from hearth.model import names
from hearth.model.child import Object
from hearth.model.stack_tree import Node, StackTree
from hearth.model.well_known_kinds import RESOURCE_GROUP
from support.units.scripted_api.scripted_connection import DeafListener, ScriptedConnection
from support.virtual_time import in_virtual_time

ITEM = "/apis/hearth.dev/v1alpha1/namespaces/a/resourcegroups/workers"
RAW: Object = {
    "metadata": {"name": "workers", "namespace": "a", "uid": "u", "resourceVersion": "7"},
    "spec": {"replicas": 2, "paused": True, "template": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}},
}


def test_a_group_is_cached_in_the_form_of_a_stack() -> None:
    """With the options of its spec, and its size beside the template."""
    group = stack_cache.parse_stack(RAW, kind=names.GROUP_KIND)
    assert (group.kind, group.is_group, group.owner_key) == ("ResourceGroup", True, "ResourceGroup/workers")
    assert group.spec["paused"] is True
    assert group.spec["size"] == {"replicas": 2}
    assert list(group.spec["template"]["resources"]) == ["member"]


def test_what_a_group_owns_and_reports_names_its_kind() -> None:
    """Otherwise the garbage collector would delete its revisions, and `kubectl describe` would show no Event."""
    group = stack_cache.parse_stack(RAW, kind=names.GROUP_KIND)
    revision = Revision(name="workers-x", number=1, hash="k1:a", kinds=frozenset(), namespace="a", owner="u")
    (body,) = controller_revision.make_objects(group, revision, {"template": {}, "parameters": {}})
    assert body["metadata"]["ownerReferences"][0]["kind"] == "ResourceGroup"
    assert controller_revision.parse_revision(body["metadata"]).owner == "u"
    assert event_recorder.about_stack(group)["kind"] == "ResourceGroup"


def test_a_group_and_a_stack_of_one_name_are_two_owners() -> None:
    """They differ in their field managers, and each is found by its kind."""
    assert names.field_manager("a", "x") == "hearth:a/x"
    assert names.field_manager("a", "x", kind=names.GROUP_KIND) == "hearth:a/resourcegroup/x"
    assert names.split_owner(names.owner_key(names.GROUP_KIND, "x")) == (names.GROUP_KIND, "x")
    assert names.split_owner(names.owner_key(names.STACK, "x")) == (names.STACK, "x")
    tree = StackTree()
    tree.put(Node("1", "a", "x", ""))
    tree.put(Node("2", "a", "x", "", names.GROUP_KIND))
    assert tree.find_uid("a", "x") == "1"
    assert tree.find_uid("a", "x", kind=names.GROUP_KIND) == "2"
    assert tree.list_names("a") == tree.list_names("a", kind=names.GROUP_KIND) == ["x"]
    tree.drop("1")
    assert (tree.find_uid("a", "x"), tree.find_uid("a", "x", kind=names.GROUP_KIND)) == ("", "2")


@in_virtual_time
async def test_the_status_of_a_group_is_written_to_the_group() -> None:
    """To its own path, and its cache takes the answer."""
    answer = {**RAW, "metadata": {**RAW["metadata"], "resourceVersion": "8"}, "status": {"phase": "CreateComplete"}}
    connection = ScriptedConnection({f"PATCH {ITEM}/status": answer})
    stacks = StackCache(connection, DeafListener().on_stack)
    home = KubeManagementCluster(
        connection,
        stacks=stacks,
        groups=StackCache(connection, DeafListener().on_stack, kind=RESOURCE_GROUP, tree=stacks.tree),
        revisions=RevisionCache(connection, DeafListener().on_revision),
        sources=SourceCache(connection, DeafListener().on_source),
    )
    await home.write_status(stack_cache.parse_stack(RAW, kind=names.GROUP_KIND), {"phase": "CreateComplete"})
    found = home.find_stack("u")
    assert found is not None
    assert (found.kind, found.phase, list(home.stacks())) == ("ResourceGroup", "CreateComplete", ["u"])
    assert home.tree.find_uid("a", "workers", kind=names.GROUP_KIND) == "u"
