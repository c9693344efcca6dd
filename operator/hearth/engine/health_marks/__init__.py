"""The HealthMark controller: finds the marked resource and writes what became of the mark. Must not replace anything itself."""
