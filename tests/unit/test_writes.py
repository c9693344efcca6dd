"""Every write of an object in a cluster is a step, except the listed ones, each with its reason.

Breakpoints, restricted actions, retained objects, the pause of a Stack and the delays of repeated writes apply to
steps. Other requests would bypass all of these.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from hearth.engine import ports
from hearth.engine.writes.approved_writes import ApprovedCluster
from support import repository

STATUS = "statuses, finalizers and revisions of the operator's own kinds"
PORTS = {
    ports.ClusterWrites: {"apply", "change", "delete", "mark", "release"},
    ports.ClusterRequests: {"change_object", "create_object", "delete_object"},
    ports.ManagementRevisions: {"adopt_revision", "create_revision", "delete_revision", "annotate_revision"},
    ports.ManagementWrites: {
        "add_finalizer",
        "remove_finalizer",
        "delete_stack",
        "write_status",
        "emit_event",
        "emit_source_event",
    },
    ports.HealthMarkClient: {"write_mark_resolution", "write_mark_status"},
    ports.SnapshotClient: {"write_snapshot_content", "write_snapshot_finalizers", "write_snapshot_status"},
    ports.StackDefinitionClient: {
        *("apply_object", "delete_object", "release_instances", "write_definition_status", "write_finalizers"),
    },
}
"""The methods of the engine's ports that write."""
READING = {
    *("get", "list", "load", "refresh", "check", "is", "may", "wait"),
    *("apply_dry_run", "create_dry_run", "change_dry_run", "withdraw"),
}
"""First words or names of methods that do not write."""
STEP_EXECUTION = {
    "hearth.engine.writes.apply_preparation",
    "hearth.engine.writes.approved_writes",
    "hearth.engine.writes.set_detachment",
    "hearth.engine.writes.step_execution",
}
"""The modules that send the requests of a step."""
EXCEPTIONS = {
    "hearth.engine.definition.definition_sync": "adds the finalizer, and says in Events what a definition lacks",
    "hearth.engine.definition.finished_record": "records finished work on a revision of the Stack",
    "hearth.engine.definition.restored_objects": "signs the objects of a restored Stack again, and deletes nothing",
    "hearth.engine.definition.revision_builder": "stores a definition before the first step",
    "hearth.engine.definition.stack_revisions": "deletes revisions beyond the limit of the history",
    "hearth.engine.definition.stack_cluster": "Events",
    "hearth.engine.health_marks.health_mark_controller": STATUS,
    "hearth.engine.health_rule_loader": "says in an Event what is wrong with the rules",
    "hearth.engine.snapshots.snapshot_controller": STATUS,
    "hearth.engine.stack.event_reports": "Events",
    "hearth.engine.stack.expiry": "deletes an expired Stack in the version whose end has come; its children are deleted by steps",
    "hearth.engine.stack.released_objects": "takes the operator's own finalizer and offer off an object, and deletes nothing",
    "hearth.engine.stack.stack_deletion": "removes the finalizer of a Stack whose objects are gone",
    "hearth.engine.stack_definitions.definition_controller": STATUS,
    "hearth.engine.stack_definitions.definition_objects": "the CustomResourceDefinition and roles of a definition, "
    "which belong to no Stack, and are guarded by its `deletionPolicy`",
    "hearth.engine.status.status_writer": STATUS,
    "hearth.engine.verified_revisions": "makes a Stack the owner of its revisions again, and deletes nothing",
}
"""Modules of the engine with other writes, each with its reason."""
SENDING = {"apply", "create", "delete", "patch", "update"}
ADAPTERS = {
    "hearth.admission": "asks for the rights of a user, which writes nothing",
    "hearth.kube.cache.object_client": "sends the patches of its subclasses",
    "hearth.kube.client.api_requests": "sends what the others create",
    "hearth.kube.health_mark_client": STATUS,
    "hearth.kube.leader_election.leases": "the Lease of the leader",
    "hearth.kube.management_cluster": STATUS,
    "hearth.kube.objects.event_recorder": "Events",
    "hearth.kube.stack_definition_client": STATUS,
    "hearth.kube.stack_plan_client": "StackPlans and their statuses",
    "hearth.kube.stack_snapshot_client": STATUS,
    "hearth.kube.webhook.certificates": "the operator's own Secret and webhook configuration",
    "hearth.kube.workload_cluster": "implements the ports that steps are executed with",
}
"""Modules of the operator that send writes to an API server."""


def list_modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of a package by name, parsed."""
    for file in sorted((repository.OPERATOR / package.replace(".", "/")).rglob("*.py")):
        yield ".".join(file.relative_to(repository.OPERATOR).with_suffix("").parts), ast.parse(file.read_text())


def find_awaited(tree: ast.AST) -> set[str]:
    """The names of all methods that are called and awaited, also by way of a variable, or passed on to be awaited."""
    nodes = list(ast.walk(tree))
    bodies: list[ast.AST] = [
        each.value if isinstance(each, ast.Await) else each.body
        for each in nodes
        if isinstance(each, ast.Await | ast.Lambda)
    ]
    variables = {each.id for body in bodies for each in ast.walk(body) if isinstance(each, ast.Name)}
    bodies += [
        each.value
        for each in nodes
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id in variables
    ]
    return {
        each.func.attr
        for body in bodies
        for each in ast.walk(body)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    }


def test_each_method_of_a_port_is_known_to_read_or_to_write() -> None:
    for port, writes in PORTS.items():
        methods = {name for name, each in vars(port).items() if inspect.iscoroutinefunction(each)}
        assert methods - {name for name in methods if name.partition("_")[0] in READING or name in READING} == writes, (
            port
        )


def test_only_the_step_executor_writes_objects() -> None:
    writes = set().union(*PORTS.values())
    found = {name for name, tree in list_modules("hearth.engine") if find_awaited(tree) & writes}
    assert sorted(found) == sorted(STEP_EXECUTION | EXCEPTIONS.keys())


def test_an_approved_plan_restricts_every_write_of_a_step() -> None:
    writes = PORTS[ports.ClusterWrites] | PORTS[ports.ClusterRequests]
    assert writes <= vars(ApprovedCluster).keys()


def test_a_write_is_found_wherever_it_is_awaited() -> None:
    sources = (
        "async def f(): await cluster.delete(ref)",
        "async def f(): error = await find_error(cluster.delete(ref))",
        "async def f():\n    request = cluster.delete(ref)\n    await find_error(request)",
        "def f(): run(lambda: cluster.delete(ref))",
    )
    assert [find_awaited(ast.parse(source)) & {"delete"} for source in sources] == [{"delete"}] * len(sources)


def is_write(node: ast.AST) -> bool:
    """Whether it sends a request that writes."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    verb = node.args[0] if "send" in node.func.attr and node.args else None
    is_patch = node.func.attr == "patch" and isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
    return is_patch or node.func.attr == "create_new" or (isinstance(verb, ast.Constant) and verb.value in SENDING)


def test_only_known_adapters_send_writes() -> None:
    found = {name for name, tree in list_modules("hearth") if any(map(is_write, ast.walk(tree)))}
    assert sorted(found) == sorted(ADAPTERS)
