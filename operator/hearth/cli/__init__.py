"""The `hearth` command line: parses arguments and prints results. Lower layers do the work."""
