"""What there is to supervise: the configuration as it was loaded, what runs by which of it, and what people want."""
