"""The gatekeeper as a witness of the core's log.

Remembers the last checkpoint, demands proof that the next one extends it, cosigns, raises the
alarm.
"""
