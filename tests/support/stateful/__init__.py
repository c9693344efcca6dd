"""The parts of the random test of targets: templates, the model of what is wanted, and the sessions in which both meet."""
