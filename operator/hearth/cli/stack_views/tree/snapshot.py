"""`StackObjects`, a snapshot of a Stack, its template and its children, and the requirements of its resources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import NamedObject, StackState
from hearth.graph import order
from hearth.model import members, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.template.text import interpolation


@value_class.dataclass(frozen=True, slots=True)
class FoundChild(NamedObject):
    """An object with the Stack's label and identity."""

    kind: Kind
    raw: Object
    schema: Mapping[str, Any] | None = None
    """The schema of its kind, if it was read. It shows whether an object without a status is ready."""

    @property
    def resource(self) -> str:
        """Return the resource that its label names: `workers[a]` for the label `workers.a`."""
        label = object_fields.text(self.raw, "metadata", "labels", names.LABEL_RESOURCE)
        signed = object_fields.text(self.annotations, names.ANNOTATION_SIGNATURE).partition("/")[0]
        if signed and names.resource_label(signed) == label:
            # A name that is too long for a label is cut.
            return signed
        root, dot, key = label.partition(".")
        return members.name_member(root, key) if dot else label

    @property
    def incarnation(self) -> int:
        """Return the number of the object among the objects of its resource."""
        text = object_fields.text(self.annotations, names.ANNOTATION_INCARNATION)
        return int(text[:9]) if text.isascii() and text.isdigit() else 0

    @property
    def finalizers(self) -> list[str]:
        """Return its finalizers."""
        return object_fields.texts(self.raw, "metadata", "finalizers")

    @property
    def type(self) -> str:
        """Return its kind as an argument of kubectl."""
        return f"{self.kind.plural}.{self.kind.group}" if self.kind.group else self.kind.plural

    @property
    def scope(self) -> list[str]:
        """Return the option of kubectl for its namespace."""
        return ["-n", self.namespace] if self.namespace else []

    @property
    def is_stack(self) -> bool:
        """Return whether it is a nested Stack."""
        return self.kind.group == names.GROUP and self.kind.name == names.STACK

    @property
    def is_group(self) -> bool:
        """Return whether it is a ResourceGroup."""
        return self.kind.group == names.GROUP and self.kind.name == names.GROUP_KIND

    @property
    def is_instance(self) -> bool:
        """Whether its status belongs to an instance of a StackDefinition."""
        status = object_fields.mapping(self.raw, "status")
        return object_fields.number(status, "definitionRevision") is not None and "phase" in status

    @property
    def requires(self) -> list[str]:
        """Return the resources that it was created from, as its annotation records them."""
        text = object_fields.text(self.annotations, names.ANNOTATION_REQUIRES)
        found = (members.root_of(each.rpartition("/")[0]) for each in text.split(",") if "/" in each)
        return list(dict.fromkeys(found))

    def __str__(self) -> str:
        """Return `deployment/web`, safe to show."""
        ref = ObjectRef(group=self.kind.group, kind=self.kind.name, namespace=self.namespace, name=self.name)
        return safe_text.one_line(ref)

    def belongs_to(self, stack_uid: str) -> bool:
        """Return whether its identity names that Stack and itself. Other controllers copy labels and annotations."""
        identity = names.identity(
            stack_uid=stack_uid, group=self.kind.group, kind=self.kind.name, namespace=self.namespace, name=self.name
        )
        return object_fields.text(self.annotations, names.ANNOTATION_IDENTITY) == identity


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackObjects:
    """A Stack, its template and its children."""

    stack: StackState
    template: Mapping[str, Any]
    """The template of the target revision if the user may read it, otherwise of the spec."""
    children: Sequence[FoundChild]
    nested: Mapping[str, StackObjects] = field(default_factory=dict)
    """Nested Stacks by UID."""
    outermost_stack: StackState | None = None
    """The Stack whose definition contains this one, or itself if it is not nested; None if the user cannot read it."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """By `Kind.key`, why objects of that kind are not shown. The key "" has the reason why no objects are shown."""

    @property
    def omissions(self) -> tuple[str, ...]:
        """Return the parts that are not shown, including those of nested Stacks."""
        inner = (each for nested in self.nested.values() for each in nested.omissions)
        return tuple(dict.fromkeys((*self.unreadable.values(), *inner)))

    def is_unreadable(self, resource: str) -> bool:
        """Return whether the objects of that resource are not shown."""
        manifest = object_fields.mapping(self.resources, members.root_of(resource), "manifest")
        group = object_fields.text(manifest, "apiVersion").rpartition("/")[0]
        kind = object_fields.text(manifest, "kind")
        # A kind that depends on a parameter may be any kind.
        is_computed = "${" in f"{group}{kind}"
        return bool(self.unreadable) and (is_computed or (f"{kind}.{group}" if group else kind) in self.unreadable)

    @property
    def is_remote(self) -> bool:
        """Return whether the objects are in another cluster, which the user's credentials do not reach."""
        return bool(object_fields.mapping(self.stack.spec, "kubeConfig"))

    @property
    def resources(self) -> Mapping[str, Any]:
        """Return the resources of the template by name."""
        return object_fields.mapping(self.template, "resources")

    def choose_children(self) -> dict[str, FoundChild]:
        """Return the newest object of each resource."""
        ranked = sorted(self.children, key=lambda child: (child.incarnation, child.created))
        return {child.resource: child for child in ranked}

    def find_requirements(self) -> dict[str, list[str]]:
        """Return the requirements of each resource, in the order of the template.

        This needs no compilation: it uses the records of objects, otherwise the text of the template.
        """
        recorded: dict[str, list[str]] = {}
        for name, child in self.choose_children().items():
            recorded.setdefault(members.root_of(name), []).extend(child.requires)
        known = frozenset(self.resources)
        # Objects do not record external objects.
        external = frozenset(name for name, each in self.resources.items() if object_fields.find(each, "externalRef"))
        found = {}
        for name, resource in self.resources.items():
            sought = external if name in recorded else known
            named = [each for each in find_named(resource, sought) if each != name] if sought else []
            found[name] = list(dict.fromkeys([*recorded.get(name, ()), *named]))
        return found

    def name_external(self, name: str) -> str:
        """Return the name of an external object, as `service/gateway in ingress`, or `services by label`."""
        stated = object_fields.mapping(self.resources, name, "externalRef")
        metadata = object_fields.mapping(stated, "metadata")
        kind = object_fields.text(stated, "kind").lower()
        place = object_fields.text(metadata, "namespace")
        where = " in all namespaces" if metadata.get("allNamespaces") is True else ""
        where = f" in {place}" if place not in ("", self.stack.namespace) else where
        named = object_fields.text(metadata, "name")
        return f"{kind}/{named}{where}" if "name" in metadata else f"{kind} by label{where}"


def sort_by_requirements(requirements: Mapping[str, list[str]]) -> list[str]:
    """Return all names, each after its requirements; names on a cycle come last."""
    found = order.sort(requirements)
    return list(dict.fromkeys([*found, *requirements]))


def find_named(resource: Any, names: Collection[str]) -> list[str]:
    """Return the resources that `dependsOn` and the expressions of a resource name."""
    stated = map(members.root_of, object_fields.texts(resource, "dependsOn"))
    found = dict.fromkeys(name for name in stated if name in names)
    for text in interpolation.find_expressions(object_fields.find(resource, "manifest")):
        found.update(dict.fromkeys(name for name in find_roots(text) if name in names))
    return list(found)


def find_roots(text: str) -> tuple[str, ...]:
    """Return the names that an expression reads; none if it is not an expression."""
    # This takes some time to import, and most trees do not need it.
    from hearth.template.cel import cel_environment, expressions

    try:
        return expressions.parse(text).roots
    except cel_environment.CelCompileError:
        return ()
