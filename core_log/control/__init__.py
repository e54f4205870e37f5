"""What the core knows besides messages: topics, channels, revocations.

A fold over records in a small log of its own.
"""
