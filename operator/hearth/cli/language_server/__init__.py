"""The language server: completion, navigation and lint for incomplete files."""
