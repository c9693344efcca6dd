"""The command `hearth`: parses the command line and prints; lower layers do everything else."""
