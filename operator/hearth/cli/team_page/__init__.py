"""`hearth page`: the page of `kubectl stack ui` for a team, served in a cluster with the token of each user."""
