"""From the log to an app that is called.

Webhooks with retries, order by key, dead letters, and a guard on destinations.
"""
