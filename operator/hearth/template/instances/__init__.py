"""Kinds that a StackDefinition makes: their schema, and their objects in the form of Stacks. Pure."""
