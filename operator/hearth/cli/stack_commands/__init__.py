"""The subcommands of `kubectl stack`: options, request, view and exit code."""
