"""The API's pydantic models, the source of `crds/`. Must not know how the operator works."""
