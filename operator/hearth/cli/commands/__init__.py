"""The subcommands of `hearth`, one module each. Thin: they parse options and call the package that does the work."""
