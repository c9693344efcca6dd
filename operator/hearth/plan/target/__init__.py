"""Which revision is the target, and why. Must not know children."""
