"""Decides which instances of a StackDefinition get which revision, and when."""
