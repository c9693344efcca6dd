"""The general rule: health of a kind without a rule of its own, by the usual fields and words of a status."""
