"""Served kinds and their OpenAPI schemas. Must not know who asks."""
