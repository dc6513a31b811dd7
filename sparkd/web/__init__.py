"""The status page, as the files it is made of."""
