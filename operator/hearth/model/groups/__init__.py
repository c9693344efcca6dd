"""The members of collections and groups: their names, indices and batches. Must not know templates or objects."""
