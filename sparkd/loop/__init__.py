"""The loop: observe, decide, act, look again."""
