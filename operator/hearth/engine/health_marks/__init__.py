"""The HealthMark controller: finds the marked resource and writes the result of the mark."""
