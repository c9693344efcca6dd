"""Reconciles Stacks: carries out the decisions of `hearth.plan` through ports."""
