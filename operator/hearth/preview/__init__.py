"""Previews of a Stack's change: the engine on a copy of the world, whose writes are dry runs."""
