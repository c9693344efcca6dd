"""Decisions about the instances of a StackDefinition: which of them gets which revision, and when. Pure."""
