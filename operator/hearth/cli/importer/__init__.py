"""`hearth import`: converts plain manifests to a Stack. Reads and writes text only; must not talk to a cluster."""
