"""The API: pydantic models, the source of `crds/`, and the types of status fields. Must not know how the operator works."""
