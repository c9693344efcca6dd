"""Which cluster the objects of a Stack are in, and the port of the other clusters. Must not know what is written there."""
