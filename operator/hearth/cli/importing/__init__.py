"""Plain manifests turned into one Stack: reading, naming, ordering, assembling. Pure; files are the command's business."""
