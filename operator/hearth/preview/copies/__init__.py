"""The copy of the world: the ports of the engine on objects in memory."""
