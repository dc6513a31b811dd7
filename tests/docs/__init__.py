"""The pages that are written from the code: `python -m tests.docs` writes them, a test keeps them current."""
