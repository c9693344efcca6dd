"""The target revision, and its cause. Must not know children."""
