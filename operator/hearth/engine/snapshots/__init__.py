"""The StackSnapshot controller: pins a revision, and creates and deletes VolumeSnapshots."""
