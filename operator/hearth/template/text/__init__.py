"""Text of templates: `${…}` in strings, YAML as kubectl reads it, quantities, and hints in error messages."""
