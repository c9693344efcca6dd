"""The subcommands of `hearth`, one module each."""
