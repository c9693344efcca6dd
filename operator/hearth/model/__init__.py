"""Values and names that every layer shares. Must not know decisions, and performs no I/O."""
