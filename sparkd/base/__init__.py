"""What every other part may use: clocks, errors, bounds, files, secrets kept out of texts. Knows no part above it."""
