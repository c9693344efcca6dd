"""Turns the spec of a Stack into its active revision: reads, compiles and stores the definition."""
