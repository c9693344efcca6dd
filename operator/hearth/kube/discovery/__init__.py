"""Served kinds and their OpenAPI schemas. Must not know which components use them."""
