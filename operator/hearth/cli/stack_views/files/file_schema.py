"""Validates Hearth's objects in a file against the schema of their kind, as the API server does.

The compiler validates the template as well, and knows more: a mistake that both find is one of the compiler's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.template.parser import object_metadata
from hearth.template.text import error_hints

if TYPE_CHECKING:
    import pydantic

API_VERSION: Final = f"{names.GROUP}/{names.VERSION}"
STACK_NAME: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
TOP: Final = ("apiVersion", "kind", "metadata", "spec", "status")
TEMPLATE: Final = ("spec", "template")
UNKNOWN_FIELD: Final = "extra_forbidden"
"""The type of an error that the compiler reports within a template, where manifests and rules have any fields."""
WITHHELD: Final = frozenset({"missing", "union_tag_invalid"})
"""Types of errors that are not reported, because the compiler or a value elsewhere explains them.

A StackDefinition reports them.
"""


def find_mistakes(manifest: Object) -> Iterator[Mistake]:
    """Yield unknown fields, wrong types, and a wrong name or version, which the API server would find as well."""
    # The models take long to import, and rendering or comparing does not need them.
    import pydantic

    from hearth.model.api.resource_group import ResourceGroup
    from hearth.model.api.stack import Stack, StackTemplate
    from hearth.model.api.stack_definition import StackDefinition

    version = object_fields.text(manifest, "apiVersion")
    if version != API_VERSION:
        yield Mistake(path="apiVersion", message=f"must be {API_VERSION}, found {error_hints.quote(version)}")
    name = object_fields.find(manifest, "metadata", "name")
    if wrong := object_metadata.object_to_name(name):
        yield Mistake(path="metadata.name", message=wrong)
    elif manifest.get("kind") == names.STACK and not STACK_NAME.fullmatch(name):
        message = "must start with a letter and contain only lower-case letters, digits and '-'"
        yield Mistake(path="metadata.name", message=f"{message}, found {error_hints.quote(name)}")
    for key in manifest:
        if key not in TOP:
            yield Mistake(path=str(key), message=f"is not a field{error_hints.did_you_mean(str(key), TOP)}")
    withheld = frozenset[str]() if manifest.get("kind") == names.DEFINITION_KIND else WITHHELD
    models = {model.__name__: model for model in (Stack, ResourceGroup, StackTemplate, StackDefinition)}
    model = models.get(str(manifest.get("kind")), Stack)
    try:
        model.model_validate({"spec": manifest.get("spec")}, strict=True, by_alias=True, by_name=False)
    except pydantic.ValidationError as error:
        for each in error.errors(include_url=False):
            way = each["loc"]
            is_compiled = way[:2] == TEMPLATE and each["type"] == UNKNOWN_FIELD
            if not is_compiled and each["type"] not in withheld:
                yield Mistake(
                    path=write_path(way), message=explain(each["type"], each["msg"], each["input"], way, model)
                )


def explain(kind: str, message: str, found: Any, way: tuple[int | str, ...], model: type[pydantic.BaseModel]) -> str:
    """Return the sentence for an error. kind, message: from pydantic; way: the location."""
    if kind == "missing":
        return f"is missing; set {way[-1]}"
    if kind == UNKNOWN_FIELD:
        return f"is not a field{error_hints.did_you_mean(str(way[-1]), list_fields(model, way[:-1]))}"
    sentence = (
        message.replace("Input should be ", "must be ").replace("a valid ", "a ").replace("a integer", "an integer")
    )
    return f"{sentence}, found {error_hints.describe(found)}"


def list_fields(model: type[pydantic.BaseModel], way: tuple[int | str, ...]) -> list[str]:
    """Return the fields at that place."""
    for step in way:
        inner = next((field for field in model.model_fields.values() if field.alias == step), None)
        found = find_model(inner.annotation) if inner is not None else None
        if found is None:
            if isinstance(step, int):
                continue
            return []
        model = found
    return [str(field.alias) for field in model.model_fields.values()]


def find_model(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Return the model within a type annotation, which may be optional or a list."""
    import pydantic

    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next((found for each in getattr(annotation, "__args__", ()) if (found := find_model(each))), None)


def write_path(way: tuple[int | str, ...]) -> str:
    """Write a path: `spec.parametersFrom[0].secretRef`."""
    return "".join(f"[{step}]" if isinstance(step, int) else error_hints.write_key(step) for step in way).lstrip(".")
