"""What all models of the API share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel

Counter: TypeAlias = Annotated[int, pydantic.Field(ge=0, json_schema_extra={"format": "int64"})]
Timestamp: TypeAlias = Annotated[str, pydantic.Field(json_schema_extra={"format": "date-time"})]


class ApiModel(pydantic.BaseModel):
    """What all parts of the API share: camel case outside, frozen, no unknown field."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", use_attribute_docstrings=True
    )
