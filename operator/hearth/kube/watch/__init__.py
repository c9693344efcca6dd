"""List-and-watch that survives every failure of a server. Must not know what the objects mean."""
