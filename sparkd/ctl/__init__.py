"""The client behind `sparkd ctl`: asks the daemon over its socket, shows it to a person; stdlib and click only."""
