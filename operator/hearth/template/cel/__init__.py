"""CEL: parsing, type checks, evaluation, the fields that an expression reads. Must not know templates."""
