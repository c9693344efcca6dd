"""Conversion and checks of single kinds: ControllerRevision, Event and CustomResourceDefinition."""
