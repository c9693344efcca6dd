"""What a change of a Stack would do: the engine on a copy of the world, whose writes are dry runs."""
