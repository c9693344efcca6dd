"""Discovers the served kinds and their OpenAPI schemas."""
