"""Runs the commands that `kubectl stack` and the status suggest, exactly as printed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.user_shell import Paster
from support.stories.world import Address

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
WEB = {"web": {"manifest": CONFIG | {"data": {"size": "${params.size}"}}}}
LIMIT_SECONDS = 120
POLL_SECONDS = 0.2


def make(kind: str, namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": namespace}
    return {"apiVersion": "hearth.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def make_stack(namespace: str, **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"size": {"type": "string", "default": "s"}}, "resources": WEB}
    return make("Stack", namespace, template=template, **spec)


def address(namespace: str, kind: str = "Stack") -> Address:
    return Address(api_version="hearth.dev/v1alpha1", kind=kind, namespace=namespace, name="shop")


async def read(user: RealUser, kind: str = "Stack") -> dict[str, Any]:
    found = await user.find(address(user.namespace, kind))
    assert found is not None
    return found


async def test_switches_and_deletion(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    await paster.stack.expect("pause", "shop")
    said = await paster.stack.expect("mark", "shop", "web", "--reason", "it is broken")
    await paster.paste(said, r"kubectl stack unpause shop -n [a-z0-9-]+")
    assert "paused" not in (await read(user))["spec"]
    await user.patch(address(user.namespace), {"spec": {"parameters": {"size": "m"}}})
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    await paster.stack.expect("suspend", "shop", "--wait", "--timeout", "60s")
    said = await paster.stack.expect("wait", "shop", "--timeout", "60s", code=1)
    await paster.paste(said, r"kubectl stack resume shop -n [a-z0-9-]+")
    assert (await read(user))["spec"].get("suspended") is not True
    await paster.stack.expect("suspend", "shop", "--wait", "--timeout", "60s")
    said = await paster.stack.expect("rollback", "shop")
    await paster.paste(said, r"kubectl stack resume shop -n [a-z0-9-]+")
    await paster.stack.expect("wait", "shop", "--for=phase=RollbackComplete", "--timeout", "60s")

    said = await paster.stack.expect("wait", "shop", "--for=deleted", "--timeout", "60s", code=1)
    await paster.paste(said, r"kubectl delete stack shop -n [a-z0-9-]+")
    assert await user.find(address(user.namespace)) is None


async def test_a_breakpoint(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    points = {"breakpoints": [{"resource": "web", "at": ["PreCreate", "PreUpdate"]}]}
    await user.create(make_stack(user.namespace, environment=points))
    await paster.stack.expect("wait", "shop", "--for=stopped", "--timeout", "60s")
    said = await paster.stack.expect("continue", "shop", "db", code=1)
    await paster.paste(said, r"kubectl stack continue shop web/PreCreate -n [a-z0-9-]+")
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    for size, pattern in (("m", r"kubectl stack continue [^,;]+(?=, or)"), ("l", r"kubectl annotate [^;]+\)")):
        await user.patch(address(user.namespace), {"spec": {"parameters": {"size": size}}})
        await paster.stack.expect("wait", "shop", "--for=stopped", "--timeout", "60s")
        conditions = (await read(user))["status"]["conditions"]
        (stopped,) = [each["message"] for each in conditions if each["type"] == "Stopped"]
        await paster.paste(stopped, pattern)
        await paster.stack.expect("wait", "shop", "--timeout", "60s")


async def test_a_snapshot_that_is_not_ready(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    await workers.dismiss()
    await paster.stack.expect("snapshot", "shop", "--name", "early")
    said = await paster.stack.expect("restore", "shop", "early", code=1)

    await workers.hire()
    await paster.paste(said, r"kubectl wait stacksnapshot/early -n [a-z0-9-]+ --for=condition=Ready")


async def test_a_mark_that_is_advised_and_one_that_is_not_there(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    said = await paster.stack.expect("unmark", "shop", "web")
    assert "stack/shop: web is not marked" in said
    assert "created" not in said

    said = await paster.stack.expect("retry", "shop", code=1)

    advised = said.replace("RESOURCE", "web").replace("TEXT", "broken")
    assert "created: web is unhealthy" in await paster.paste(advised, r"kubectl stack mark shop web .*--reason broken")


async def test_a_group_that_is_held(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    template = {"manifest": CONFIG}
    await user.create(make("ResourceGroup", user.namespace, replicas=1, template=template))
    await paster.stack.expect("wait", "rg/shop", "--timeout", "60s")
    for verb, command in (("pause", "unpause"), ("suspend", "resume")):
        await paster.stack.expect(verb, "rg/shop")
        said = await paster.stack.expect("scale", "rg/shop", "--replicas", "2")
        await paster.paste(said, rf"kubectl stack {command} rg/shop -n [a-z0-9-]+")
        await paster.stack.expect("wait", "rg/shop", "--timeout", "60s")


async def test_a_pause_that_a_wait_meets(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace, paused=True))
    said = await paster.stack.expect("wait", "shop", "--timeout", "60s", code=1)

    await paster.paste(said, r"kubectl stack unpause shop -n [a-z0-9-]+")

    await paster.stack.expect("wait", "shop", "--timeout", "60s")


async def find_in_explanation(paster: Paster, word: str) -> str:
    """The output of `why`, if it contains that word."""
    said = (await paster.stack.run("why", "shop")).stdout
    return said if word in said else ""


async def test_obsolete_objects_that_a_stack_keeps(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    resources = {"old": {"manifest": CONFIG}, **WEB}
    template = {"parameters": {"size": {"type": "string", "default": "s"}}, "resources": resources}
    await user.create(make("Stack", user.namespace, template=template))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    late = {"old": None, "late": {"readyWhen": ["late.data.size == 'l'"], "manifest": CONFIG | {"data": {"size": "s"}}}}
    await user.patch(address(user.namespace), {"spec": {"template": {"resources": late}}})

    said = await wait_for(lambda: find_in_explanation(paster, "cleanup"))
    await paster.paste(said, r"kubectl stack cleanup shop -n [a-z0-9-]+")

    old = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="shop-old")
    await wait_for(lambda: is_gone(user, old))


CONTAINER = {"name": "run", "image": "registry.k8s.io/pause:3.10"}
RUN = {"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}


async def test_finished_work(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make("Stack", user.namespace, template={"resources": {"run": {"manifest": RUN}}}))
    pod = Address(api_version="v1", kind="Pod", namespace=user.namespace, name="shop-run")
    await wait_for(lambda: is_running(user, pod))
    await user.patch_status(pod, {"phase": "Succeeded"})
    # The Stack also reports ready while the work runs.
    await wait_for(lambda: has_finished(user, "run"))
    said = await paster.stack.expect("retry", "shop", code=1)

    done = await paster.paste(said, r"kubectl stack retry shop run -n [a-z0-9-]+")

    assert "run has finished and will run again" in done


async def test_rights_that_are_missing(workers: Crew, user: RealUser, paster: Paster) -> None:
    """A source, and an account of a nested Stack: each command grants the missing permissions."""
    await workers.hire("--tenancy=isolated")
    rights = (
        "kubectl create serviceaccount deployer && kubectl create serviceaccount other"
        " && kubectl create role deployer --verb=get,list,watch,create,patch,delete"
        " --resource=configmaps,stacks.hearth.dev"
        " && kubectl create rolebinding deployer --role=deployer --serviceaccount=$NAMESPACE:deployer"
        " && kubectl create rolebinding other --role=deployer --serviceaccount=$NAMESPACE:other"
        " && kubectl create secret generic sizes --from-literal=size=m"
    ).replace("$NAMESPACE", user.namespace)
    await paster.paste(rights, ".+")
    inner = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {"name": "inner"}}
    inner |= {"spec": {"serviceAccountName": "other", "template": {"resources": {"x": {"manifest": CONFIG}}}}}
    template = {"parameters": {"size": {"type": "string"}}, "resources": {**WEB, "inner": {"manifest": inner}}}
    spec = {"serviceAccountName": "deployer", "parametersFrom": [{"secretRef": {"name": "sizes"}}]}
    await user.create(make("Stack", user.namespace, template=template, **spec))

    for words in ("cannot be read", "cannot use"):
        said = await wait_for(lambda words=words: find_words(user, words))  # type: ignore[misc]  # mypy cannot type a default that binds a loop variable
        await paster.paste(said, r"kubectl create role .*? --serviceaccount=\S+ --namespace=[a-z0-9-]+")
    await paster.stack.expect("wait", "shop", "--timeout", "60s")


async def test_a_record_of_suspending_that_someone_else_wrote(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    container = {"name": "web", "image": "registry.k8s.io/pause:3.10"}
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    await user.create(make("Stack", user.namespace, template={"resources": {"web": {"manifest": manifest}}}))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    forge = """kubectl annotate deployment shop-web 'hearth.dev/suspended={"ours": {"spec.replicas": 3}}'"""
    await paster.paste(forge, ".+")
    said = await wait_for(lambda: find_words(user, "kubectl annotate"))

    await paster.paste(said, r"kubectl annotate [a-z.]+ shop-web -n [a-z0-9-]+ hearth.dev/suspended-")

    await wait_for(lambda: is_silent(user, "kubectl annotate"))


async def test_a_rollback_that_an_edit_ended(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    rolled_back = ("--for", "phase=RollbackComplete")
    steps: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"parameters": {"size": "m"}}, ()),
        ({"rollback": {"toRevision": 1}}, rolled_back),
        ({"parameters": {"size": "l"}}, ()),
    ]
    for spec, goal in steps:
        await user.patch(address(user.namespace), {"spec": spec})
        await paster.stack.expect("wait", "shop", *goal, "--timeout", "60s")
    warned = str((await read(user))["status"]["warnings"])

    await paster.paste(warned, r"kubectl stack rollback shop --to 1 -n [a-z0-9-]+")

    await paster.stack.expect("wait", "shop", *rolled_back, "--timeout", "60s")
    status = (await read(user))["status"]
    assert (status["phase"], status["revision"]) == ("RollbackComplete", 1)


async def test_a_change_that_cannot_be_undone(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    web = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="shop-web")
    await user.patch(web, {"immutable": True, "data": {"size": "other"}})
    said = await wait_for(lambda: find_words(user, "kubectl stack mark"))

    await paster.paste(said, r"kubectl stack mark shop web --reason drift")

    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    assert await user.find(web) is None


async def wait_for(find: Callable[[], Awaitable[str]]) -> str:
    """Wait for the first result."""
    async with asyncio.timeout(LIMIT_SECONDS):
        found = await find()
        while not found:
            await asyncio.sleep(POLL_SECONDS)
            found = await find()
    return found


async def find_words(user: RealUser, words: str) -> str:
    """The messages of the status, if the words are in one; "" if not."""
    status = (await read(user)).get("status", {})
    said = [each["message"] for each in (*status.get("conditions", []), *status.get("problems", []))]
    return "\n".join(each for each in said if words in each)


async def is_silent(user: RealUser, words: str) -> str:
    return "" if await find_words(user, words) else "silent"


async def is_gone(user: RealUser, address: Address) -> str:
    return "gone" if await user.find(address) is None else ""


async def has_finished(user: RealUser, work: str) -> str:
    stack = await user.find(address(user.namespace)) or {}
    finished = stack.get("status", {}).get("finished", [])
    return "finished" if work in [each["resource"] for each in finished] else ""


async def is_running(user: RealUser, pod: Address) -> str:
    found = await user.find(pod) or {}
    return "running" if found.get("status", {}).get("phase") == "Running" else ""


async def test_stacks_that_exchange_objects(workers: Crew, user: RealUser, paster: Paster) -> None:
    await workers.hire()

    def make_named(stack: str, config: str) -> dict[str, Any]:
        manifest = {**CONFIG, "metadata": {"name": config}}
        made = make("Stack", user.namespace, template={"resources": {"config": {"manifest": manifest}}})
        return {**made, "metadata": {**made["metadata"], "name": stack}}

    pairs = {"first": ("one", "two"), "second": ("two", "one")}
    for stack, (before, _) in pairs.items():
        await user.create(make_named(stack, before))
        await paster.stack.expect("wait", stack, "--timeout", "60s")
    for stack, (_, after) in pairs.items():
        place = Address(api_version="hearth.dev/v1alpha1", kind="Stack", namespace=user.namespace, name=stack)
        await user.patch(place, {"spec": make_named(stack, after)["spec"]})
    for stack in pairs:
        await paster.stack.expect("wait", stack, "--for=phase=UpdateFailed", "--timeout", "60s")
    said = await paster.stack.expect("why", "first", code=1)
    await paster.paste(said.replace("STACK", "first"), r"kubectl stack cleanup first")
    for stack in pairs:
        # The failure is reported until the next attempt succeeds.
        await paster.stack.expect("wait", stack, "--for=condition=Ready", "--timeout", "60s")


async def test_work_that_failed_and_work_whose_value_no_longer_exists(
    workers: Crew, user: RealUser, paster: Paster
) -> None:
    await workers.hire()
    resources = {"run": {"manifest": RUN}, "work": {"manifest": RUN, "retry": {"limit": 0}}}
    await user.create(make("Stack", user.namespace, template={"resources": resources}))
    run, work = (
        Address(api_version="v1", kind="Pod", namespace=user.namespace, name=f"shop-{name}") for name in resources
    )
    for pod, phase in ((run, "Succeeded"), (work, "Failed")):
        await wait_for(lambda pod=pod: is_running(user, pod))  # type: ignore[misc]  # the type of a lambda's default
        await user.patch_status(pod, {"phase": phase})
    await wait_for(lambda: has_finished(user, "run"))
    said = await wait_for(lambda: find_in_explanation(paster, "not rerun automatically"))
    await paster.paste(said.replace("STACK", "shop"), r"kubectl stack retry shop\b")

    await user.delete(run)
    await wait_for(lambda: is_gone(user, run))
    late = {"manifest": CONFIG | {"data": {"phase": "${run.status.phase}"}}}
    await user.patch(address(user.namespace), {"spec": {"template": {"resources": {"late": late}}}})
    said = await wait_for(lambda: find_in_explanation(paster, "run it again"))
    assert "will run again" in await paster.paste(said.replace("STACK", "shop"), r"kubectl stack retry shop run")
