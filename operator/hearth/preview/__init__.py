"""Previews a change of a Stack: runs the engine on a copy of the cluster, with dry runs as writes."""
