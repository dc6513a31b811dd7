"""What people, scripts and Prometheus are told: status, metrics, notices."""
