"""A preview as text, Markdown and JSON. Pure."""
