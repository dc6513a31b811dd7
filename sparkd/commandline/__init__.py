"""What reads a command line: shells and their scripts, `docker run`, and the engine in the words of a command. Followed, never executed."""
