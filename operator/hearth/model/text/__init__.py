"""Text for people: times, lists of names, redaction and escaping."""
