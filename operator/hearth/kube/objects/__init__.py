"""Individual kinds as objects: ControllerRevision, Event, CustomResourceDefinition. Must not know watches."""
