"""Runs the tests in one file: the engine in a simulated cluster that each test describes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from hearth import supervision
from hearth.cli import text_files
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_views.files import file_schema, stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.cli.stack_views.stack_tests import stack_test_check
from hearth.cli.stack_views.stack_tests.stack_test_models import (
    SUFFIX,
    CaseModel,
    InvalidTest,
    PlayedObjectModel,
    StepModel,
    TestFile,
)
from hearth.cli.stack_views.stack_tests.stack_test_report import CaseResult
from hearth.engine.stack_definitions import definition_objects
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import errors, instance_fields, names, object_fields, well_known_kinds
from hearth.model.child import Object
from hearth.model.tenancy import Mode, Tenancy
from hearth.model.text import redaction, times
from hearth.plan.ownership import apply_obstacles
from hearth.preview import object_copies
from hearth.preview.empty_cluster import EmptyCluster
from hearth.preview.played_world import PlayedFault, PlayedHealth, PlayedObject, Script
from hearth.preview.preview_world import PreviewRequest
from hearth.preview.stack_trial import StackTrial, TrialResult
from hearth.sandbox import process
from hearth.sandbox.pool import Pool
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForm
from hearth.template.text import kubectl_yaml

TESTED: Final = (*names.STACK_KINDS, well_known_kinds.STACK_TEMPLATE.name, names.DEFINITION_KIND)
"""The kinds that a test can be about."""
UNNAMED: Final = "test"
"""The name of the Stack of a template."""
UID: Final = "00000000-0000-4000-8000-000000000001"
"""The UID of the Stack."""
REFUSED: Final = "the API server refuses it"
NOW: Final = 1_767_225_600.0
"""The moment when every test begins, so that its result never depends on the day."""


async def run_case(file: TestFile, case: CaseModel) -> CaseResult:
    """Run one test. Raises InvalidTest for files that cannot be used."""
    begun = time.monotonic()
    faults: list[str] = []
    with supervision.using(supervision.Supervisor(on_error=faults.append)):
        differences = await CaseRun(file, case).run()
    if faults:
        differences.append(f"internal error of the engine ({', '.join(dict.fromkeys(faults))}); report it as a bug")
    seconds = time.monotonic() - begun
    return CaseResult(source=file.source, name=case.name, seconds=seconds, differences=tuple(differences))


class CaseRun:
    """One test while it runs."""

    def __init__(self, file: TestFile, case: CaseModel) -> None:
        self._file = file
        self._case = case
        self._metadata = object_fields.mapping(case.metadata)
        self._namespace = object_fields.text(self._metadata, "namespace") or stack_files.DEFAULT_NAMESPACE
        self._kinds = FolderKinds(None)
        self._cluster = EmptyCluster(self._kinds)
        self._pools: list[Pool] = []
        self._trial: StackTrial | None = None
        self._files: Sequence[str] | None = file.stack_test.files
        self._parameters: Object = {}
        self._spec: Object = {}
        self._revision = 0
        self._hidden: set[str] = set()
        """Sensitive values so far."""
        self._last = TrialResult(status={}, objects={}, applied=(), deleted=())
        self._resources: set[str] = set()
        """The resources of the templates so far."""
        for each in case.objects or ():
            self._add(each)

    def _add(self, document: Mapping[str, Any]) -> None:
        """Add an object of a file to the cluster."""
        stored = stack_files.encode_secret(document)
        self._hidden.update(find_secret_texts(stored))
        self._cluster.add(stored, namespace=self._namespace)

    async def run(self) -> list[str]:
        """Run all steps; return the differences, up to the first step that has some."""
        steps: list[StepModel] = [self._case, *(self._case.then or ())]
        before: Mapping[str, Object] = {}
        try:
            for number, step in enumerate(steps, 1):
                result = await self._run_step(step)
                known = {*self._resources, *before, *result.objects}
                self._hidden.update(result.hidden, *map(find_secret_texts, result.objects.values()))
                result = dataclasses.replace(result, hidden=frozenset(self._hidden))
                differences = [
                    *stack_test_check.find_unknown(step, known),
                    *stack_test_check.find_differences(step.expect, result, before),
                ]
                if differences:
                    # Later steps build on this one.
                    shown = [redaction.redact(each, result.hidden) for each in differences]
                    return [f"step {number}: {each}" if len(steps) > 1 else each for each in shown]
                before = result.objects
        finally:
            if self._trial is not None:
                self._trial.close()
            await asyncio.gather(*(pool.close() for pool in self._pools))
        return []

    async def _run_step(self, step: StepModel) -> TrialResult:
        is_changed = bool(step.files or step.parameters or step.spec)
        self._files = step.files or self._files
        # Keep nulls, because they remove fields of the file.
        self._parameters = object_copies.merge(self._parameters, step.parameters or {})
        self._spec = object_copies.merge(self._spec, step.spec or {})
        if self._trial is None or is_changed:
            request, mistakes = self._make_request()
            if mistakes:
                # The API server rejects the change, so nothing happens.
                return dataclasses.replace(
                    self._last, applied=(), deleted=(), rejection=REFUSED, mistakes=tuple(mistakes)
                )
            if self._trial is None:
                self._trial = StackTrial(self._cluster, request, now=NOW, evaluate=self._make_pool)
            else:
                self._trial.change(request)
        self._last = await self._trial.play(make_script(step), within=times.parse_duration(step.within))
        return self._last

    def _make_pool(self, queue: WorkQueue) -> Pool:
        pool = Pool(notify=lambda uid: queue.enqueue(uid, DirtyScope.EVALUATED), on_limit=lambda _limit: None)
        self._pools.append(pool)
        return pool

    def _make_request(self) -> tuple[PreviewRequest, list[errors.Mistake]]:
        """Return the wanted Stack, and the mistakes that an API server would report. Raises InvalidTest."""
        stack_file = self._find_stack_file()
        for each in stack_file.beside:
            if each is not stack_file.manifest and isinstance(each, dict):
                self._add(each)
        with contextlib.suppress(errors.InvalidDefinition):
            self._resources |= object_fields.mapping(stack_files.find_template(stack_file), "resources").keys()
        if stack_file.is_definition:
            return self._make_instance(stack_file)
        wanted = stack_file.manifest
        if stack_file.is_template:
            template = object_fields.find(wanted, "spec", "template")
            wanted = {"apiVersion": wanted["apiVersion"], "kind": names.STACK, "spec": {"template": template}}
        spec = dict(object_fields.mapping(wanted, "spec"))
        spec = apply_obstacles.patched(spec, self._spec)
        if self._parameters or "parameters" in spec:
            spec["parameters"] = apply_obstacles.patched(spec.get("parameters"), self._parameters)
        mode = Mode(self._case.tenancy)
        if spec.pop("kubeConfig", None) is not None:
            # The simulated cluster represents the other one, where only the permissions of the kubeconfig apply.
            mode = Mode.TRUSTED
        wanted = {**wanted, "metadata": self._make_metadata(stack_file), "spec": spec}
        tenancy = Tenancy(mode=mode)
        request = PreviewRequest(
            present=None, wanted=wanted, tenancy=tenancy, accounts=self._find_accounts(tenancy, spec)
        )
        return request, list(file_schema.find_mistakes(wanted))

    def _find_stack_file(self) -> StackFile:
        """Return the object that the test is about. Raises InvalidTest."""
        files = self._files or [Path(self._file.source).name.removesuffix(SUFFIX) + ".yaml"]
        documents = {each: read_documents(self._file.source, each) for each in files}
        found = stack_files.find_stacks(documents, kinds=TESTED)
        name = self._file.stack_test.stack
        chosen = [each for each in found if name in (None, each.identity.name)]
        if len(chosen) == 1:
            return chosen[0]
        known = ", ".join(each.title for each in found) or "none"
        wanted = f"named {name}" if name is not None else "to test"
        hint = "set stack to the name of one" if len(chosen) > 1 else "correct files or stack"
        raise InvalidTest(
            f"{self._file.source}: there must be one Stack {wanted} in {', '.join(files)}, found {len(chosen)} "
            f"({known}); {hint}"
        )

    def _make_metadata(self, stack_file: StackFile) -> Object:
        """Return the metadata of the Stack as an API server stores it."""
        own = (
            {}
            if stack_file.is_template or stack_file.is_definition
            else object_fields.mapping(stack_file.manifest, "metadata")
        )
        usual = {"name": UNNAMED, "namespace": self._namespace}
        return {**usual, **own, **self._metadata, "uid": UID, "resourceVersion": "1"}

    def _make_instance(self, stack_file: StackFile) -> tuple[PreviewRequest, list[errors.Mistake]]:
        """Return an instance of a StackDefinition, and the mistakes of the definition."""
        try:
            stack_file = stack_files.include_template(stack_file)
        except errors.InvalidDefinition as error:
            return PreviewRequest(present=None, wanted={}), list(error.mistakes)
        with contextlib.closing(process.OfflineEvaluator()) as evaluator:
            mistakes = stack_files.find_definition_mistakes(stack_file, self._kinds, evaluator)
        if mistakes:
            return PreviewRequest(present=None, wanted={}), mistakes
        spec = dict(object_fields.mapping(stack_file.manifest, "spec"))
        self._revision += 1
        content = instance_form.make_content(spec)
        form = instance_form.make_form(stack_file.identity.name, self._revision, content)
        tenancy = Tenancy(mode=Mode(self._case.tenancy))
        if form.definer is not None:
            tenancy = dataclasses.replace(tenancy, definer_accounts=frozenset({str(form.definer)}))
        kind = definition_objects.find_kind(spec)
        options: Object = apply_obstacles.patched({}, self._spec)
        stated = {**self._store_sensitive(form), **({instance_fields.OPTIONS: options} if options else {})}
        wanted = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": self._make_metadata(stack_file),
            "spec": stated,
        }
        accounts = self._find_accounts(tenancy, options, form)
        return PreviewRequest(present=None, wanted=wanted, tenancy=tenancy, accounts=accounts, form=form, kind=kind), []

    def _store_sensitive(self, form: InstanceForm) -> Object:
        """Return the parameters of an instance. A sensitive value in the test is moved into a Secret."""
        name, parameters = f"{UNNAMED}-parameters", apply_obstacles.patched({}, self._parameters)
        clear = {
            key: str(value)
            for key, value in parameters.items()
            if key in form.sensitive and not isinstance(value, Mapping)
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": clear}
        self._add(secret)
        return {
            key: {instance_fields.SECRET: {"name": name, "key": key}} if key in clear else value
            for key, value in parameters.items()
        }

    def _find_accounts(self, tenancy: Tenancy, spec: Mapping[str, Any], form: InstanceForm | None = None) -> list[str]:
        """Return the user that writes the objects; a test grants its permissions."""
        account = object_fields.text(spec, "serviceAccountName")
        definer = form.definer if form is not None else None
        return [tenancy.find_boundary(self._namespace, account, definer=definer).user]


def find_secret_texts(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of a Secret as the API server stores it, decoded if they are text."""
    if (document.get("apiVersion"), document.get("kind")) != ("v1", "Secret"):
        return
    for value in redaction.find_texts(dict(object_fields.mapping(document, "data"))):
        try:
            yield base64.b64decode(value, validate=True).decode()
        except ValueError:
            yield value


def read_documents(source: str, named: str) -> list[Any]:
    """Return the documents of a file. source: the file of the test that names it. Raises InvalidTest."""
    folder = Path(source).parent
    # Never read standard input, which `-` would mean.
    file = str((folder / named).absolute()) if named == text_files.STANDARD_INPUT else str(folder / named)
    try:
        text_files.check_inside(Path(file), folder)
        return [document.value for document in kubectl_yaml.parse_documents(text_files.read(file))]
    except click.ClickException as error:
        raise InvalidTest(f"{source}: {error.message}; correct files") from error
    except yaml.YAMLError as error:
        problem = f"{text_files.quote(file)} is not valid YAML: {kubectl_yaml.describe(error)}"
        raise InvalidTest(f"{source}: {problem}") from error


def make_script(step: StepModel) -> Script:
    """Return the simulated behavior of a step."""
    fault = step.fail
    return Script(
        objects={name: make_played(each) for name, each in (step.play or {}).items()},
        fault=PlayedFault(
            resource=fault.resource or "",
            write=fault.write,
            times=fault.times,
            code=fault.code,
            message=fault.message,
        )
        if fault is not None
        else None,
    )


def make_played(model: PlayedObjectModel) -> PlayedObject:
    """Return the simulated behavior of controllers for an object."""
    stated = {"status": model.status, "spec": model.spec}
    return PlayedObject(
        health=PlayedHealth(model.health),
        message=model.message,
        fields={word: fields for word, fields in stated.items() if fields is not None},
        immutable=tuple(model.immutable or ()),
    )
