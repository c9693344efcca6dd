"""Who owns an object and its fields; keyed hashes and signatures. Must not know what is done about it."""
