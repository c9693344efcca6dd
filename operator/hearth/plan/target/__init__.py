"""The target revision of a Stack and its cause."""
