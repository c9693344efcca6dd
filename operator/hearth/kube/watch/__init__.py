"""List and watch that recovers from every server failure. Must not know what the objects mean."""
