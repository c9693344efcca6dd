"""The subcommands of `hearth`, one module each. They parse options and call the package that does the work."""
