"""What an app publishes: from messages to batches, in order, numbered and deduplicated.

Knows neither HTTP nor files.
"""
