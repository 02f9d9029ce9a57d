"""The peer's side: verifiers 0.4.0 in an environment of its own, used as it is installed."""
