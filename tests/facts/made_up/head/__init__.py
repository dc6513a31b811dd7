"""Files of a fact that sparkd does not have."""
