"""Health and suspend rules by kind, with their data files. Verdicts are functions of one object and its kind's schema."""
