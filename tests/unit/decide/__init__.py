"""`step`, phase by phase: `world` builds what it sees, the cases say what it decides."""
