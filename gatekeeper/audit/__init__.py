"""What was decided, written down: decisions, their batches for the log, limits on floods."""
