"""Values and names that all layers share. No decisions and no I/O."""
