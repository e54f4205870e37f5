"""What callers and operators reach: one table of routes, the gate, and their handlers."""
