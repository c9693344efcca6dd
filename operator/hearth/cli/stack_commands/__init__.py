"""The subcommands of `kubectl stack`: options, the request, the view, the exit code. No logic of their own."""
