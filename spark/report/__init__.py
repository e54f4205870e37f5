"""The audit's report: gathers what the checks say, judges it, and writes it down.

`gather.py` runs the checks, `result.py` is what they say as plain values, and the others each
write one form of it. May import the checks; must never decide what is wrong by themselves.
"""
