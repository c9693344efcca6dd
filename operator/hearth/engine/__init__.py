"""Reconciliation of Stacks: carries the decisions of `hearth.plan` to the ports. Async. Must not know HTTP or kopf."""
