"""OpenAPI and JSON Schema as types. Must not know templates."""
