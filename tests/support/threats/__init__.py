"""The world of the attack tests: an operator under the shipped rights, tenants with narrow rights, a canary."""
