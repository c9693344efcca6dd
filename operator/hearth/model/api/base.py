"""The base class of the API models, and helpers for their fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

Counter: TypeAlias = Annotated[int, pydantic.Field(ge=0, json_schema_extra={"format": "int64"})]
Timestamp: TypeAlias = Annotated[str, pydantic.Field(json_schema_extra={"format": "date-time"})]
LIST_BY_TYPE: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""For a list of conditions: a map whose key is the type."""
NOT_OBSERVED: JsonDict = {"default": {"observedGeneration": -1}}
"""Default of the status. Tools that follow kstatus treat an object without a status as current; with this default, they
wait."""


class ApiModel(pydantic.BaseModel):
    """Base class of all API models: camelCase aliases, frozen, no unknown fields."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", use_attribute_docstrings=True
    )


def optional_list(most: int, *, least: int | None = None, kind: Literal["atomic", "set"] = "atomic") -> Any:
    """Return an optional list field. kind: an `atomic` list has one owner, and each entry of a `set` has its own."""
    schema: JsonDict = {"x-kubernetes-list-type": kind}
    return pydantic.Field(default=None, min_length=least, max_length=most, json_schema_extra=schema)


def validated(*rules: JsonDict) -> pydantic.ConfigDict:
    """Return the configuration of a model with validation rules in its schema."""
    return pydantic.ConfigDict(json_schema_extra={"x-kubernetes-validations": list(rules)})
