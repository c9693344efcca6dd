"""StackSnapshots: a revision pinned, VolumeSnapshots taken and deleted."""
