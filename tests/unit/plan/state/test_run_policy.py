"""Which objects run once, by kind and manifest; when they have finished; what is probably not meant."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.state import run_policy

JOB, POD = "Job.batch", "Pod"


@pytest.mark.parametrize(
    ("kind", "spec", "is_run", "goes"),
    [
        pytest.param(JOB, {}, True, False, id="a Job stays, as long as no user deletes it"),
        pytest.param(JOB, {"ttlSecondsAfterFinished": 60}, True, True, id="a Job with a lifetime"),
        pytest.param(JOB, {"ttlSecondsAfterFinished": 0}, True, True, id="a lifetime of nothing is one"),
        pytest.param(POD, {"restartPolicy": "Never"}, True, True, id="the garbage collector takes pods that ended"),
        pytest.param(POD, {"restartPolicy": "OnFailure"}, True, True, id="these end too"),
        pytest.param(POD, {"restartPolicy": "Always"}, False, False, id="a pod that runs on"),
        pytest.param(POD, {}, False, False, id="which is the default"),
        pytest.param("Workflow.argoproj.io", {}, True, True, id="its controller may prune it by its own settings"),
        pytest.param("PipelineRun.tekton.dev", {}, True, True, id="likewise"),
        pytest.param(
            "OpsRequest.example.com", {"ttlSecondsAfterSucceed": 5}, True, True, id="any kind with a lifetime"
        ),
        pytest.param("Deployment.apps", {"replicas": 1}, False, False, id="what runs on"),
        pytest.param("ConfigMap", None, False, False, id="an object without a spec"),
    ],
)
def test_what_runs_and_goes(kind: str, spec: Any, is_run: bool, goes: bool) -> None:
    """By kind where no object shows it, else by what the spec states."""
    manifest = {"spec": spec} if spec is not None else {"data": {}}
    assert (run_policy.is_run(kind, manifest), run_policy.has_own_lifetime(kind, manifest)) == (is_run, goes)


@pytest.mark.parametrize(
    ("status", "is_done"),
    [
        pytest.param({"conditions": [{"type": "Complete", "status": "True"}]}, True, id="Job"),
        pytest.param({"conditions": [{"type": "Complete", "status": "False"}]}, False, id="not yet"),
        pytest.param(
            {"conditions": [{"type": "Suspended", "status": "True"}]}, False, id="a suspended Job has not finished"
        ),
        pytest.param({"conditions": [{"type": "Succeeded", "status": "True"}]}, True, id="PipelineRun"),
        pytest.param({"phase": "Succeeded"}, True, id="Pod and Workflow"),
        pytest.param({"phase": "Succeed"}, True, id="OpsRequest"),
        pytest.param({"phase": "Running"}, False, id="it runs"),
        pytest.param({"state": "COMPLETED"}, True, id="in capitals"),
        pytest.param({"conditions": "Complete", "phase": 7}, False, id="words of a stranger"),
        pytest.param({"conditions": [None, "Complete", {"type": 7, "status": "True"}]}, False, id="more of these"),
        pytest.param(None, False, id="no status"),
        pytest.param([], False, id="no map"),
    ],
)
def test_what_has_finished_by_its_own_words(status: Any, is_done: bool) -> None:
    """Also for any other value of a status."""
    assert run_policy.says_done({"status": status}) is is_done
