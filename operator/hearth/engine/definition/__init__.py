"""From the spec of a Stack to the active revision: read, compile, store. Must not know children."""
