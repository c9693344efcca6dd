"""What a spec refers to: ConfigMaps and Secrets, read as the account of the Stack. Must not know revisions."""
