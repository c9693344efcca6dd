"""Attacks on a real API server: the operator under exactly the shipped rights, tenants, a canary.

    from support.threats.world import CONFIG_MAPS, ThreatWorld, make_config_map, make_stack

    def test_d1(threats: ThreatWorld) -> None:
        tenant = threats.tenant()                         # a fresh namespace
        author = tenant.author()                          # may write Stacks alone; author(CONFIG_MAPS): those too
        author.create(make_stack(tenant.namespace, "shop", {"a": make_config_map("a", {"k": "v"})}))
        threats.canary()                                  # another tenant's new Stack is complete within 10 s of the operator's time
        threats.wait_phase(tenant.namespace, "shop", "CreateFailed")
        assert threats.operator.get("/healthz").is_ok

- Accounts: `tenant.author()`, `.editor("configmaps")`, `.annotator("deployments", group="apps")`,
  `.status_patcher("deployments")`, `.revision_editor()`, `.health_marker()`, `.make_account(name, *rules)`.
  Each is an `Api` that impersonates a ServiceAccount: `create/try_create/apply/get/list/patch/annotate/delete/send`;
  `try_create`, `patch`, `send` return an `Answer` (`.code`, `.text`, `.body`, `.expect()`), also for refusals.
  `send(..., body=b"...")` sends bytes as they are (deep nesting, duplicate keys). `threats.api` is the administrator.
- Operator: `threats.operator` has `start/kill/stop/restart`, `get("/healthz")`, `read_metric(name, **labels)`,
  `read_log()`, `read_events("text")`, `memory`, `peak`, `forget_peak()`, `files`, `cpu_seconds`, and
  `with operator.listened_to() as silence:` … `silence.longest_work` (the most CPU seconds that the operator worked while
  /healthz was silent; assert these), `silence.longest` (the seconds, which a busy machine prolongs; print these).
  Options: `@pytest.mark.operator_options("--max-backoff=2s")`; it starts before the test, on an empty cluster.
- `threats.wait_for(lambda: …, within=…, what="…")` polls until true, and shows the operator's log if it is not.
- Everything is synchronous. Each test has the control plane alone and a fresh operator (about 2 s): put small attacks
  that leave it well into one test. Everything in namespaces from `tenant()` and in `hearth-system` is removed after it.
- Run on a plane of your own, which must not be `hearth`, without xdist:
  `python tests/control_plane/controlplane.py --name mine with --quiet -- pytest -n 0 tests/integration/threats/test_x.py`
- Against an older checkout: the same with `HEARTH_THREATS_CHECKOUT=/path/to/it`, whose operator, CRDs and rights are taken
  then; the test itself still imports this checkout.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.threats import installation, world
from support.threats.slots import Slots
from support.threats.world import ThreatWorld


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests as needing a control plane, although they do not use the shared one."""
    for item in items:
        if "threats" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def slots(worker_id: str) -> Iterator[Slots]:
    """The control planes of this test run."""
    made = Slots(is_alone=worker_id == "master")
    yield made
    made.close()


@pytest.fixture
def threats(slots: Slots, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ThreatWorld]:
    """A separate world for the test, with a ready operator."""
    marker = request.node.get_closest_marker("operator_options")
    variant = request.node.get_closest_marker("installed")
    with (
        slots.take() as kubeconfig,
        world.open_world(
            kubeconfig,
            tmp_path,
            variant=variant.args[0] if variant is not None else installation.USUAL,
            options=marker.args if marker is not None else (),
        ) as made,
    ):
        yield made
