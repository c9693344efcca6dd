"""The reconciler of one Stack and its parts. `hearth.plan` makes the decisions."""
