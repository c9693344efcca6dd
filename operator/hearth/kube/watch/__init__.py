"""List and watch that recovers from every server failure. Must not know the meaning of the objects."""
