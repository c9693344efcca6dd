"""The command `hearth`: reads the command line, prints, and leaves everything else to the layers below."""
