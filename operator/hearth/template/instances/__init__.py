"""Kinds that a StackDefinition creates: their CustomResourceDefinition, and their instances in the form of Stacks."""
