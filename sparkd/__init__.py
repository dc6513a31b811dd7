"""sparkd keeps multi-node language-model servers answering, and says why when they don't."""

__version__ = "0.1.0"
