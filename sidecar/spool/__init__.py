"""What can't be sent yet, on disk.

The outbox with its files and their format, and what was refused after it had been accepted.
"""
