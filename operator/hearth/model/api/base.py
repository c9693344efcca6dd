"""What all models of the API share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

Counter: TypeAlias = Annotated[int, pydantic.Field(ge=0, json_schema_extra={"format": "int64"})]
Timestamp: TypeAlias = Annotated[str, pydantic.Field(json_schema_extra={"format": "date-time"})]
LIST_BY_TYPE: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""Of a list of conditions: one of each type."""
NOT_OBSERVED: JsonDict = {"default": {"observedGeneration": -1}}
"""Of the status. Tools that follow kstatus take an object without a status for current; with this they wait."""


class ApiModel(pydantic.BaseModel):
    """What all parts of the API share: camel case outside, frozen, no unknown field."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", use_attribute_docstrings=True
    )


def optional_list(most: int, *, least: int | None = None, kind: Literal["atomic", "set"] = "atomic") -> Any:
    """Return the field of a list that may be missing. kind: `atomic` has one owner, each entry of a `set` its own."""
    schema: JsonDict = {"x-kubernetes-list-type": kind}
    return pydantic.Field(default=None, min_length=least, max_length=most, json_schema_extra=schema)


def validated(*rules: JsonDict) -> pydantic.ConfigDict:
    """Return the configuration of a model with validation rules in its schema."""
    return pydantic.ConfigDict(json_schema_extra={"x-kubernetes-validations": list(rules)})
