"""What the checks share: what they look at, how the words of a command are read, and how findings come of them."""
