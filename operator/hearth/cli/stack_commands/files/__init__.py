"""Commands on files, which need no cluster."""
