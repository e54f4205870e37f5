"""Durable subscriptions: cursors, members, assignment, leases and redelivery."""
