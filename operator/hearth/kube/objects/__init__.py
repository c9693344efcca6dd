"""Individual kinds as objects: ControllerRevision, Event, Lease, the hash key. Must not know watches."""
