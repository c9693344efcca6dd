"""Review of a Stack: the same compiler as the engine's, against the kinds that the cluster serves.

A definition that reads other objects is never denied, because these may change before the operator reads them; nor is
a write that leaves the definition as it is, so that an invalid Stack can still be paused or deleted. Both get warnings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hearth.engine import cooperative_work
from hearth.engine.admission import review as review_module
from hearth.engine.admission.review import Review, ReviewResult
from hearth.engine.admission.snapshot_review import SnapshotReviewer
from hearth.engine.cluster_objects import KubeconfigRef, StackObject
from hearth.engine.definition import definition_sources, rejections, stack_cluster
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.kinds import Kinds, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.environment import environment_rules
from hearth.plan.resource import definition_warnings
from hearth.plan.status import breakpoint_waits
from hearth.plan.target import rollback_notes
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, Known
from hearth.template.cel.evaluation import Unevaluated

TEMPLATE_SOURCES = ("templateRef", "templateRefs")
DEFINING_FIELDS = (
    *("template", *TEMPLATE_SOURCES, "parameters", "parametersFrom"),
    *("adoptionPolicy", "serviceAccountName", "kubeConfig"),
    resource_group.SIZE,
)
"""The fields of the spec that decide what is applied, and as whom."""
CONSEQUENCE = "nothing is changed"
STORED = "it is stored, and nothing is applied until this is corrected"


@dataclass(slots=True)
class StackReviewer:
    """The reviewer of Stacks; has the evaluator processes of `builder` to itself."""

    builder: RevisionBuilder
    check_kubeconfig: Callable[[str], object] = str
    """Raises KubeconfigRefused for a kubeconfig that the engine would not use."""

    async def review(self, review: Review) -> ReviewResult:
        """Return the denial with all mistakes, or warnings."""
        if review.new.get("metadata", {}).get("deletionTimestamp"):
            return review_module.ALLOWED
        stack = review_module.make_stack(review.new, namespace=review.namespace)
        if denial := self._find_boundary(stack).stack_denial:
            return deny(review, denial)
        try:
            restore = await SnapshotReviewer(self.builder).review_restore(review)
            result = (await self._review(review, stack)).combine(restore)
        finally:
            self.builder.evaluations.forget(stack.uid)
        if result.denial or not (warning := warn_of_rollback(review)):
            return result
        return dataclasses.replace(result, warnings=(review_module.shorten(warning), *result.warnings))

    async def _review(self, review: Review, stack: StackObject) -> ReviewResult:
        try:
            definition = await self.builder.read_spec(
                review.namespace, review.spec, reader=self.builder.find_reader(stack)
            )
        except errors.SourceNotFound as error:
            return ReviewResult(warnings=review_module.to_warnings(str(error)))
        except errors.InvalidDefinition as error:
            return judge(review, error, definition=None)
        try:
            blueprint = await compile_fully(self.builder, definition, stack)
        except errors.InvalidDefinition as error:
            return judge(review, error, definition=definition)
        if stack.kubeconfig is not None:
            # What another cluster serves is known once the engine reaches it.
            return ReviewResult(
                warnings=review_module.to_warnings(await self._check_kubeconfig(stack, stack.kubeconfig))
            )
        boundary = self._find_boundary(stack)
        beyond = await cooperative_work.share(find_beyond(blueprint, boundary, kinds=self.builder.cluster.kinds))
        if beyond:
            return judge(review, errors.InvalidDefinition(beyond), definition=definition)
        found = [*find_warnings(review.spec, blueprint, kinds=self.builder.cluster.kinds)]
        if stack.is_group:
            found += resource_group.find_warnings(review.new["spec"])
        return ReviewResult(warnings=review_module.to_warnings("\n".join(found)))

    async def _check_kubeconfig(self, stack: StackObject, reference: KubeconfigRef) -> str:
        """Return why the kubeconfig is not used; only a warning, because the Secret may change."""
        try:
            text = await stack_cluster.read_kubeconfig(self.builder.find_reader(stack), stack, reference)
            self.check_kubeconfig(text)
        except errors.SourceNotFound as error:
            return str(error)
        except errors.KubeconfigRefused as error:
            return stack_cluster.describe_rejected(stack, reference, error)
        return ""

    def _find_boundary(self, stack: StackObject) -> Boundary:
        """Return where the objects of the Stack may be."""
        is_remote = stack.kubeconfig is not None
        return self.builder.tenancy.find_boundary(
            stack.namespace, stack.service_account, is_remote=is_remote, definer=stack.definer
        )


@dataclass(slots=True)
class TemplateReviewer:
    """The reviewer of StackTemplates: what is wrong with any parameters, before the Stacks that use one report it."""

    builder: RevisionBuilder

    async def review(self, review: Review) -> ReviewResult:
        """Return the denial with all mistakes, or warnings."""
        stack = review_module.make_stack(review.new, namespace="")
        blueprint, mistakes = await compile_template(self.builder, review.spec.get("template"), stack)
        if mistakes:
            error = errors.InvalidDefinition(mistakes)
            return ReviewResult(denial=rejections.describe_mistakes(error, consequence="the template is not stored"))
        if blueprint is None:
            return review_module.ALLOWED
        found = find_warnings({}, blueprint, kinds=self.builder.cluster.kinds)
        return ReviewResult(warnings=review_module.to_warnings("\n".join(found)))


async def compile_template(
    builder: RevisionBuilder, template: object, stack: StackObject
) -> tuple[Blueprint | None, Sequence[Mistake]]:
    """Compile a template without parameters; return what is wrong with it with any values of these.

    Neither is there where a value may mend all that is wrong. Nothing is kept of the stack, which stands for the owner.
    """
    definition = Definition(template=template if isinstance(template, dict) else {}, parameters={})
    try:
        definition_sources.check_template(definition.template, path=definition_sources.INLINE_PATH)
        return await compile_fully(builder, definition, stack), ()
    except errors.InvalidDefinition as error:
        return None, definition_sources.find_certain(error, definition)
    finally:
        builder.evaluations.forget(stack.uid)


async def compile_fully(builder: RevisionBuilder, definition: Definition, stack: StackObject) -> Blueprint:
    """Compile, and wait for slow expressions; the caller limits the time."""
    while True:
        try:
            return await builder.compile(definition, stack)
        except Unevaluated:
            await builder.evaluations.wait(stack.uid)


def warn_of_rollback(review: Review) -> str:
    """Return that the edit ends a rollback; "" if it does not, or requests another one."""
    if review.old is None or is_definition_kept(review):
        return ""
    before, after = (review_module.read_spec(each).get("rollback") for each in (review.old, review.new))
    if after and after != before:
        return ""
    status = review.old.get("status")
    return rollback_notes.warn_of_end(
        status if isinstance(status, dict) else {}, name=review.name, namespace=review.namespace
    )


def judge(review: Review, error: errors.InvalidDefinition, *, definition: Definition | None) -> ReviewResult:
    """Deny the mistakes, unless they may not be the author's. definition: None if it could not be read."""
    if reads_other_objects(review.spec, definition):
        text = rejections.describe_mistakes(error, consequence=STORED)
        return ReviewResult(warnings=review_module.to_warnings(text))
    return deny(review, rejections.describe_mistakes(error, consequence=CONSEQUENCE))


def deny(review: Review, text: str) -> ReviewResult:
    """Deny the write, or only warn if it leaves the definition as it is."""
    if is_definition_kept(review):
        return ReviewResult(warnings=review_module.to_warnings(text))
    return ReviewResult(denial=text)


def reads_other_objects(spec: Object, definition: Definition | None) -> bool:
    """Return whether the definition contains anything that another object supplies."""
    if any(spec.get(each) is not None for each in TEMPLATE_SOURCES):
        return True
    return bool(definition.origins) if definition is not None else bool(spec.get("parametersFrom"))


def is_definition_kept(review: Review) -> bool:
    """Return whether the write leaves an existing definition as it is."""
    if review.old is None:
        return False
    before, after = review_module.read_spec(review.old), review.spec
    try:
        return all(before.get(each) == after.get(each) for each in DEFINING_FIELDS)
    except RecursionError:
        return False


def find_beyond(blueprint: Blueprint, boundary: Boundary, *, kinds: Kinds) -> ChunkedWork[list[Mistake]]:
    """Find the resources beyond the boundary of the Stack, as far as their place is known now."""
    found: list[Mistake] = []
    for resource in blueprint.resources.values():
        yield
        kind = kinds.find(resource.api_version, resource.kind)
        outcome = resource.manifest.evaluate({}) if kind is not None and resource.is_constant else None
        if kind is None or not isinstance(outcome, Known):
            continue
        metadata = outcome.value.get("metadata") or {}
        namespace = str(metadata.get("namespace") or boundary.namespace) if kind.namespaced else ""
        ref = ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=str(metadata.get("name") or ""))
        if denial := boundary.find_denial(ref):
            found.append(Mistake(path=resource.path, message=denial))
    return found


def find_warnings(spec: Object, blueprint: Blueprint, *, kinds: Kinds) -> Iterator[str]:
    """Find what is valid but probably not meant."""
    resources = blueprint.resources
    for resource in resources.values():
        if kinds.find(resource.api_version, resource.kind) is None:
            yield (
                f"{resource.path}: the cluster does not serve {resource.api_version} {resource.kind}, "
                f"so this resource waits until it does"
            )
    yield from definition_warnings.find_warnings(blueprint)
    nested = [name for name, resource in resources.items() if resource.is_stack]
    for rule in environment_rules.parse(spec.get("environment")).find_unmatched(resources.keys(), nested=nested):
        yield breakpoint_waits.describe_idle_rule(rule)
