"""The sides of a comparison: what runs on the nodes and what lies around it, and what a deployment would run."""
