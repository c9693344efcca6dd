"""CEL expressions: parsing, type checks, evaluation, cost and the fields that an expression reads."""
