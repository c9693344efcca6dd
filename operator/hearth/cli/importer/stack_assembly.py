"""Assembles manifests into one Stack: each manifest becomes a resource with a readable name and its dependencies.

If the Stack is too large for one object, parts of it are moved to ConfigMaps.
"""

from __future__ import annotations

import base64
import gzip
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from hearth.cli.importer import (
    manifest_cleanup,
    manifest_references,
    resource_naming,
    served_order,
    tool_annotations,
    withheld_values,
)
from hearth.cli.importer import manifest_documents as documents_module
from hearth.cli.importer.manifest_documents import ManifestDocument, SourceText
from hearth.cli.importer.manifest_references import ManifestIndex
from hearth.graph import order
from hearth.model import limits, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction
from hearth.template.blueprint import Replacement
from hearth.template.compiler import secret_literals
from hearth.template.parser import policies
from hearth.template.schema import literal_validator
from hearth.template.text import bounds

RUNNING_ONCE = frozenset({"Job.batch", "Pod"})
"""Kinds whose objects cannot change: a new definition needs a new object."""
PARAMETERS_SUFFIX = "-parameters"
USUAL_NAMESPACE = "default"
"""Namespace that kubectl uses by default."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Result of an import."""

    stack: Object
    """The manifest of the Stack."""
    warnings: tuple[str, ...]
    """Points for the user to check, one sentence each."""
    notes: tuple[str, ...] = ()
    """How annotations of other tools were handled, one sentence each."""
    secret: Object | None = None
    """The Secret with the values of parameters that replace literal values of imported Secrets; None without any."""


def assemble(
    texts: Sequence[SourceText],
    *,
    name: str,
    namespace: str | None,
    adopts: bool = False,
    has_secret_parameters: bool = False,
) -> Import:
    """Return the Stack of all manifests in the texts. Raises InvalidDefinition with all errors.

    adopts: whether the Stack takes over existing objects; has_secret_parameters: whether literal values of Secrets become
    parameters.
    """
    default_namespace = namespace or USUAL_NAMESPACE
    documents, left_out = read_installed(texts, default_namespace=default_namespace)
    resource_names = resource_naming.name_all(documents)
    index = ManifestIndex(documents, default_namespace)
    index.fill()
    positions = find_dependencies(index)
    depends_on = {
        resource: [resource_names[position] for position in required]
        for resource, required in zip(resource_names, positions, strict=True)
    }
    warnings = [f"{call(document)} is left out: {reason}" for document, reason in left_out]
    warnings += open_cycles(depends_on)
    warnings += cut_dependencies(depends_on)
    warnings += [warning for document in documents for warning in find_warnings(document, namespace=namespace)]
    awaited = find_claims_bound_by_pods(documents, positions)
    kept = find_survivors(index)
    resources = {
        resource: {
            **make_policies(depends_on[resource], is_ready_at_once=position in awaited, is_kept=position in kept),
            **make_update_policy(document),
            "manifest": manifest_cleanup.clean(document.manifest, is_cluster_wide=index.is_cluster_wide(document)),
        }
        for position, (resource, document) in enumerate(zip(resource_names, documents, strict=True))
    }
    made = list(zip(documents, resources.values(), strict=True))
    parameters = complete(made)
    notes = [f"the parameter {each} has no value yet: set it with spec.parametersFrom" for each in parameters]
    values = extract_values(made, resources, parameters) if has_secret_parameters else {}
    stack = make_stack(resources, parameters, name=name, namespace=namespace, adopts=adopts)
    secret = make_secret(stack, values) if values else None
    check_size(stack["spec"]["template"], path=texts[0].source)
    literals = list(secret_literals.find_warnings(stack["spec"]["template"]))
    warnings += literals
    if literals and not has_secret_parameters:
        notes.append("to turn literal values of Secrets into parameters, use --secret-parameters")
    stays = [
        f"{call(documents[position])} is kept when the Stack is deleted: {reason}" for position, reason in kept.items()
    ]
    notes = [*stays, *describe_unheeded(documents), *notes]
    return Import(stack=stack, warnings=tuple(warnings), notes=tuple(notes), secret=secret)


def read_installed(
    texts: Sequence[SourceText], *, default_namespace: str
) -> tuple[list[ManifestDocument], list[tuple[ManifestDocument, str]]]:
    """Return the manifests that become resources, and those that are left out, each with the reason.

    Raises InvalidDefinition if none, or too many, become resources.
    """
    found = documents_module.read_all(texts, default_namespace=default_namespace)
    if mistakes := list(find_long_names(found)):
        raise InvalidDefinition(mistakes)
    left_out = list(find_left_out(found))
    foreign = {id(document) for document, _ in left_out}
    documents = [document for document in found if id(document) not in foreign]
    if not documents:
        raise InvalidDefinition(
            [Mistake(path=document.place, message=f"cannot be imported: {reason}") for document, reason in left_out]
        )
    if len(documents) > limits.RESOURCES:
        message = f"{len(documents)} manifests are too many for one Stack, which can hold {limits.RESOURCES}"
        raise InvalidDefinition([Mistake(path=texts[0].source, message=f"{message}; import fewer files at once")])
    return documents, left_out


def complete(made: Sequence[tuple[ManifestDocument, Object]]) -> dict[str, Object]:
    """Replace each value that an export withheld with a parameter, and return the parameters.

    made: each document with its resource. Raises InvalidDefinition with all values that no template can contain.
    """
    parameters: dict[str, Object] = {}
    mistakes: list[Mistake] = []
    for document, resource in made:
        for found in withheld_values.read(document.manifest, place=document.place):
            if isinstance(found, Mistake):
                mistakes.append(found)
                continue
            put_parameter(found.parameter, found.type, resource["manifest"], found.path, parameters)
    mistakes += [*find_wrong_keys(made), *find_masked(made)]
    if mistakes:
        raise InvalidDefinition(mistakes)
    return parameters


def put_parameter(
    name: str, type_: str, manifest: Object, path: withheld_values.FieldPath, parameters: dict[str, Object]
) -> str:
    """Replace a value with a sensitive parameter, add that to `parameters`, and return its name, which resembles the
    requested one.
    """
    free = resource_naming.find_free(name, parameters)
    parameters[free] = {"type": type_, "sensitive": True}
    withheld_values.put(manifest, path, f"${{params.{free}}}")
    return free


def extract_values(
    made: Iterable[tuple[ManifestDocument, Object]], resources: Iterable[str], parameters: dict[str, Object]
) -> dict[str, str]:
    """Replace each literal value of a Secret with a parameter, add that to `parameters`, and return the values.

    made: each document with its resource, in the order of `resources`.
    """
    values: dict[str, str] = {}
    for name, (document, resource) in zip(resources, made, strict=True):
        manifest = resource["manifest"]
        if not secret_literals.is_secret(manifest):
            continue
        for part in secret_literals.PARTS:
            literal = {
                key: value
                for key, value in object_fields.mapping(document.manifest, part).items()
                if isinstance(value, str)
                and value
                and key not in secret_literals.PUBLIC
                and not redaction.is_mask(value)
            }
            for key, value in literal.items():
                wanted = withheld_values.name_parameter(name, (key,))
                parameter = put_parameter(wanted, "string", manifest, (part, key), parameters)
                values[parameter] = value
    return values


def make_secret(stack: Object, values: Mapping[str, str]) -> Object:
    """Return the Secret with the values of parameters, and let the Stack read it."""
    manifests = (each["manifest"] for each in stack["spec"]["template"]["resources"].values())
    taken = {object_fields.text(each, "metadata", "name") for each in manifests if each["kind"] == "Secret"}
    wanted = names.shorten(stack["metadata"]["name"] + PARAMETERS_SUFFIX, length=names.NAME_LENGTH)
    name = next(each for at in itertools.count(1) if (each := wanted if at == 1 else f"{wanted}{at}") not in taken)
    stack["spec"] = {"parametersFrom": [{"secretRef": {"name": name}}], **stack["spec"]}
    metadata = {**stack["metadata"], "name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)}


def find_masked(made: Iterable[tuple[ManifestDocument, Object]]) -> Iterator[Mistake]:
    """Yield an error for each placeholder of a sensitive value, because an apply would overwrite the value with it."""
    for document, resource in made:
        for path in literal_validator.find_masked_paths(resource["manifest"], path=""):
            message = f"{path.removeprefix('.')} {redaction.MASKED}; write the value, or leave the field out"
            yield Mistake(path=document.place, message=message)


def find_wrong_keys(made: Iterable[tuple[ManifestDocument, Object]]) -> Iterator[Mistake]:
    """Yield an error for each key that no template can contain. made: each document with its resource."""
    for document, resource in made:
        for path in manifest_cleanup.find_expression_keys(resource["manifest"]):
            message = f"{path}: the key contains ${{, which starts an expression; keys cannot contain expressions"
            yield Mistake(path=document.place, message=message)


def check_size(template: Object, *, path: str) -> None:
    """Check that a Stack can have this template. Raises InvalidDefinition."""
    mistakes = bounds.check(template, path=path)
    size = 0 if mistakes else len(orjson.dumps(template))
    if size > limits.REVISION_BYTES:
        message = f"produces a template of {size} bytes, but the limit is {limits.REVISION_BYTES}"
        mistakes = [Mistake(path=path, message=f"{message}; import fewer files at once")]
    if mistakes:
        raise InvalidDefinition(mistakes)


def find_left_out(documents: Sequence[ManifestDocument]) -> Iterator[tuple[ManifestDocument, str]]:
    """Yield the documents that the Stack must not contain, each with the reason."""
    for document in documents:
        if maker := find_maker(document, documents):
            yield document, f"{maker} creates it"
        elif program := find_program(document):
            yield document, f"it is not an object but a configuration file of {program}"
        elif annotation := tool_annotations.find_exclusion(document):
            yield document, f"{annotation} marks it as not part of an installation"


def make_stack(
    resources: Mapping[str, Object],
    parameters: Mapping[str, Object],
    *,
    name: str,
    namespace: str | None,
    adopts: bool,
) -> Object:
    """Return the manifest of a Stack with these resources and parameters."""
    declared = {"parameters": dict(parameters)} if parameters else {}
    policy = {"adoptionPolicy": "Adopt"} if adopts else {}
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Stack",
        "metadata": {"name": name} if namespace is None else {"name": name, "namespace": namespace},
        "spec": {**policy, "template": {**declared, "resources": dict(resources)}},
    }


def make_policies(depends_on: Sequence[str], *, is_ready_at_once: bool, is_kept: bool) -> Object:
    """Return the fields of a resource other than its manifest. They come first, because a manifest may be long."""
    resource: Object = {}
    if depends_on:
        resource["dependsOn"] = list(depends_on)
    if is_ready_at_once:
        resource["readyWhen"] = ["true"]
    if is_kept:
        resource["deletionPolicy"] = policies.RETAIN
    return resource


def make_update_policy(document: ManifestDocument) -> Object:
    """Return the policy of a hook that runs once: its tool deletes the old object before it creates the next one."""
    if not document.name or document.key not in RUNNING_ONCE or not tool_annotations.find_hook(document):
        return {}
    return {"updatePolicy": {"replace": Replacement.DELETE_FIRST.value}}


def find_claims_bound_by_pods(documents: Sequence[ManifestDocument], required: Sequence[Sequence[int]]) -> set[int]:
    """Return the claims that imported pods use and whose class may bind them only when these pods exist.

    Waiting for such a claim before its pods exist would never end.
    """
    immediate = {document.name for document in documents if binds_at_once(document)}
    used = {
        position
        for document, positions in zip(documents, required, strict=True)
        if manifest_references.find_pod_template(document.manifest) is not None
        for position in positions
    }
    return {
        position
        for position in used
        if documents[position].key == "PersistentVolumeClaim"
        and manifest_references.find_storage_class(documents[position].manifest) not in immediate
    }


def binds_at_once(document: ManifestDocument) -> bool:
    """Return whether it is a StorageClass whose claims are bound without a pod."""
    if document.key != "StorageClass.storage.k8s.io":
        return False
    return bool(document.manifest.get("volumeBindingMode", "Immediate") == "Immediate")


def open_cycles(depends_on: dict[str, list[str]]) -> Iterator[str]:
    """Remove dependencies that close a cycle from `depends_on`; yield a warning for each."""
    while cycles := order.find_cycles(depends_on):
        first, second = cycles[0][0], cycles[0][1 % len(cycles[0])]
        depends_on[first] = [name for name in depends_on[first] if name != second]
        yield f"{order.describe(cycles[0])} wait for each other; {first} no longer waits for {second}"


def cut_dependencies(depends_on: dict[str, list[str]]) -> Iterator[str]:
    """Shorten the lists that are longer than a template may have; yield a warning for each."""
    for name, required in depends_on.items():
        if len(required) > limits.DEPENDENCIES:
            depends_on[name] = required[: limits.DEPENDENCIES]
            yield f"{name} requires {len(required)} resources but can wait for at most {limits.DEPENDENCIES}"


def call(document: ManifestDocument) -> str:
    """Return the text that identifies a document in messages."""
    return f"{document.place}: {document.kind} {document.name}".rstrip()


def find_long_names(documents: Sequence[ManifestDocument]) -> Iterator[Mistake]:
    """Yield a mistake for each name that is longer than the API server accepts for its kind."""
    for document in documents:
        longest = names.STRICT_LENGTHS.get(document.key)
        if longest is not None and len(document.name) > longest:
            message = f"has {len(document.name)} characters, and a {document.kind} may have {longest}; shorten it"
            yield Mistake(path=f"{document.place}: metadata.name", message=message)


def find_warnings(document: ManifestDocument, *, namespace: str | None) -> Iterator[str]:
    """Yield warnings about parts of a manifest that might not have the intended effect."""
    called = call(document)
    metadata = document.metadata
    if not document.name:
        has = "generateName, which creates a new object each time" if metadata.get("generateName") else "no name"
        yield f"{called} has {has}; its object is named after the Stack and the resource"
    if tool := tool_annotations.find_hook(document):
        yield f"{called} is a hook of {tool}; Hearth treats it as an ordinary resource"
    if namespace is not None and document.group == "" and document.kind == "Namespace" and document.name == namespace:
        yield f"{called} is the Stack's own namespace and would be deleted with the Stack; remove it"


def describe_unheeded(documents: Sequence[ManifestDocument]) -> Iterator[str]:
    """Yield a sentence for each annotation that another tool would follow. Equal annotations are combined."""
    found: dict[tuple[str, str], list[ManifestDocument]] = defaultdict(list)
    for document in documents:
        for unheeded in tool_annotations.find_unheeded(document):
            found[unheeded].append(document)
    for (annotation, instead), stating in found.items():
        others = f" and {len(stating) - 1} more" if len(stating) > 1 else ""
        yield f"{annotation} of {call(stating[0])}{others} has no effect here{f'; {instead}' if instead else ''}"


# The objects that must survive the Stack: objects with such an annotation, and the Namespaces and
# CustomResourceDefinitions whose deletion would delete them.


def find_survivors(index: ManifestIndex) -> dict[int, str]:
    """Return the positions of the manifests whose objects must survive, each with the reason."""
    stated = {position: tool_annotations.find_keeper(document) for position, document in enumerate(index.documents)}
    kept = {position: annotation for position, annotation in stated.items() if annotation}
    for position in tuple(kept):
        document = index.documents[position]
        for holder in find_holders(document, index):
            kept.setdefault(holder, f"{document.kind} {document.name} would be deleted with it".replace("  ", " "))
    return dict(sorted(kept.items()))


def find_holders(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Yield the Namespace of an object and the definition of its kind: deleting either one deletes the object."""
    if not index.is_cluster_wide(document):
        name = index.find_namespace(document)
        holder = index.objects.get(ObjectRef(group="", kind="Namespace", namespace="", name=name))
        yield from () if holder is None else (holder,)
    definition = index.served.get((document.group, document.kind))
    yield from () if definition is None else (definition,)


# Dependencies between imported manifests: references to other imported objects, and rules by kind. A manifest is
# identified by its position.

LIMITS: Final = frozenset({"LimitRange", "ResourceQuota"})
"""Kinds that affect only pods that are created after them."""
CALLED: Final = manifest_references.WEBHOOKS | {manifest_references.API_SERVICE}
"""Kinds that make the API server call a Service. Requests fail from then on until the Service responds."""


def find_dependencies(index: ManifestIndex) -> list[list[int]]:
    """Return, for each document, the positions of the documents that must be ready before it, in ascending order."""
    required = [set(find_required(each, index)) - {position} for position, each in enumerate(index.documents)]
    served_order.add(required, index)
    return [sorted(each) for each in required]


def find_required(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Return the positions of the dependencies of one document; may repeat, and may contain the document itself."""
    definition = index.served.get((document.group, document.kind))
    if definition is not None:
        yield definition
    runs_pods = manifest_references.find_pod_template(document.manifest) is not None
    for reference in index.locate_mentions(document):
        if reference in index.objects:
            yield index.objects[reference]
        if runs_pods and reference.kind == "ServiceAccount":
            # A program that reads its permissions only once at startup fails if its RBAC objects are created after its
            # Pods.
            yield from index.bound.get(reference, ())
    if runs_pods:
        yield from find_limits(document, index)
    if document.key in CALLED:
        for reference in index.locate_mentions(document):
            yield from manifest_references.find_answering(reference, index)


def find_limits(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Return the objects that limit the pods of the document's namespace."""
    namespace = index.find_namespace(document)
    for kind in LIMITS:
        for position in index.keys.get(kind, ()):
            if index.find_namespace(index.documents[position]) == namespace:
                yield position


# Manifests that a Stack cannot contain: objects that controllers and the API server create, and configuration files of
# programs.

MADE: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Service", "kubernetes")})
"""Objects that Kubernetes creates in each namespace, or once per cluster."""
RECORDS: Final = frozenset({"Event", "Event.events.k8s.io", "ControllerRevision.apps", "PodMetrics.metrics.k8s.io"})
"""Kinds that people never write."""
TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105 -- a type of Secret

PROGRAMS: Final[Mapping[str, str]] = {
    "kustomize.config.k8s.io": "kustomize: import the output of `kubectl kustomize`",
    "kpt.dev": "kpt: import the output of `kpt fn render`",
    "kapp.k14s.io": "kapp",
    "kbld.k14s.io": "kbld",
    "vendir.k14s.io": "vendir",
    "skaffold": "Skaffold",
    "kind.x-k8s.io": "kind",
    "k3d.io": "k3d",
    "kubeadm.k8s.io": "kubeadm",
    "kubelet.config.k8s.io": "the kubelet",
    "kubeproxy.config.k8s.io": "kube-proxy",
    "kubescheduler.config.k8s.io": "kube-scheduler",
    "apiserver.config.k8s.io": "the API server",
    "apiserver.k8s.io": "the API server",
    "audit.k8s.io": "the API server",
    "client.authentication.k8s.io": "kubectl",
    "kubectl.config.k8s.io": "kubectl",
}
"""Groups in the apiVersion of programs' own files. No API server serves them."""
KUBECONFIG: Final = "Config"
"""The kind of a kubeconfig file. The core group has no kind of this name."""


def find_program(document: ManifestDocument) -> str:
    """Return the program whose file the document is, or "" if it is an object."""
    if not document.group and document.kind == KUBECONFIG:
        return "kubectl: it holds credentials"
    return PROGRAMS.get(document.group, "")


def find_maker(document: ManifestDocument, documents: Sequence[ManifestDocument]) -> str:
    """Return the creator of the object, e.g. `its owner ReplicaSet web-7d4`, or "" if it may be a person. documents:
    all documents.
    """
    kind = document.key
    for owner in object_fields.entries(document.metadata, "ownerReferences"):
        if owner.get("controller") is True or kind == "EndpointSlice.discovery.k8s.io":
            return f"its owner {owner.get('kind')} {owner.get('name')}"
    is_token = kind == "Secret" and document.manifest.get("type") == TOKEN
    if (kind, document.name) in MADE or kind in RECORDS or is_token:
        return "the control plane"
    if kind == "Endpoints" and any(_has_selector(each, document) for each in documents):
        return f"Service {document.name}"
    return ""


def _has_selector(service: ManifestDocument, endpoints: ManifestDocument) -> bool:
    """Return whether these Endpoints come from a Service: a Service without a selector has none."""
    is_its = (service.kind, service.name, service.namespace) == ("Service", endpoints.name, endpoints.namespace)
    return is_its and bool(object_fields.mapping(service.manifest, "spec", "selector"))


# Divides a Stack that is too large for one object into compressed ConfigMaps and a Stack that references them.

APPLIED_BYTES = 200 * 1024
"""Size of one object as JSON. `kubectl apply` stores a copy in an annotation, and all annotations have 256 KiB."""
ANNOTATION_BYTES = 256 * 1024
"""Size of all annotations of an object."""
COMPRESSED_BYTES = 128 * 1024
"""Size of one compressed part: base 64 adds a third."""
TEMPLATE_KEY = "template.json.gz"
TEMPLATE_SUFFIX = "-template"


def divide(stack: Object) -> list[Object]:
    """Return the objects to apply: only the Stack if it fits, otherwise its ConfigMaps, then the Stack.

    Raises InvalidDefinition if there are more ConfigMaps than a Stack can reference.
    """
    if len(orjson.dumps(stack)) <= APPLIED_BYTES:
        return [stack]
    template = stack["spec"]["template"]
    rest = {section: content for section, content in template.items() if section != "resources"}
    parts = list(_split(dict(template["resources"])))
    if len(parts) > limits.TEMPLATE_SOURCES:
        message = (
            f"takes {len(parts)} compressed ConfigMaps, but a Stack can reference at most {limits.TEMPLATE_SOURCES}"
        )
        raise InvalidDefinition([Mistake(path="the template", message=f"{message}; import fewer files at once")])
    templates = [{**(rest if at == 0 else {}), "resources": part} for at, part in enumerate(parts)]
    maps = [_make_config_map(stack, *each) for each in zip(_name_parts(stack, templates), templates, strict=True)]
    references = [{"name": each["metadata"]["name"], "key": TEMPLATE_KEY} for each in maps]
    spec = {key: value for key, value in stack["spec"].items() if key != "template"}
    return [*maps, {**stack, "spec": {"templateRefs": references, **spec}}]


def find_unapplicable(objects: Iterable[Object]) -> Iterator[str]:
    """Yield the names of the objects that `kubectl apply` accepts only with `--server-side`."""
    for each in objects:
        if len(orjson.dumps(each)) > ANNOTATION_BYTES:
            yield f"{each['kind'].lower()}/{each['metadata']['name']}"


def _name_parts(stack: Object, templates: Sequence[Object]) -> list[str]:
    """Return names for the ConfigMaps that differ from all imported ones: a Stack must not change its own source.

    A name contains a hash of the content: a changed template changes the Stack, so that `kubectl wait` waits for it.
    """
    manifests = (each["manifest"] for each in stack["spec"]["template"]["resources"].values())
    taken = {object_fields.text(each, "metadata", "name") for each in manifests if each["kind"] == "ConfigMap"}
    stem = stack["metadata"]["name"] + TEMPLATE_SUFFIX
    stems = (stem if number == 1 else f"{stem}{number}" for number in itertools.count(1))
    hashes = [names.digest(orjson.dumps(template).decode()) for template in templates]
    candidates = ([names.shorten(f"{each}-{hash_}", length=names.NAME_LENGTH) for hash_ in hashes] for each in stems)
    return next(found for found in candidates if taken.isdisjoint(found))


def _split(resources: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the resources in order, in groups that are small enough after compression."""
    if len(resources) == 1 or len(_compress({"resources": resources})) <= COMPRESSED_BYTES:
        yield resources
        return
    entries = list(resources.items())
    sizes = [len(orjson.dumps(value)) for _, value in entries]
    half, passed, middle = sum(sizes) / 2, 0, 1
    for at, size in enumerate(sizes):
        passed += size
        if passed >= half:
            middle = min(max(at + 1, 1), len(entries) - 1)
            break
    yield from _split(dict(entries[:middle]))
    yield from _split(dict(entries[middle:]))


def _compress(template: Object) -> bytes:
    # Without a timestamp, the same template always gives the same bytes.
    return gzip.compress(orjson.dumps(template), mtime=0)


def _make_config_map(stack: Object, name: str, template: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**stack["metadata"], "name": name},
        "binaryData": {TEMPLATE_KEY: base64.b64encode(_compress(template)).decode()},
    }
