"""OpenAPI and JSON Schema: shapes of kinds, rules of parameters, and validation against both."""
