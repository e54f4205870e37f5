"""The sidecar: what an app talks to. It takes messages in, batches them, and hands others out.

May import `log_format` and `hosting`; speaks to gatekeepers over the wire only. It never sees
another principal's credentials and decides nothing about who may do what.
"""
