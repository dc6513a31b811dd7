"""Drift beside the loop: what runs is compared with what worked, what works is recorded, and kept in files."""
