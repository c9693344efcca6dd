"""Text: `${…}` in strings, YAML as kubectl reads it, hints in error messages."""
