"""The only way into the log: proves who is calling and decides what they may do."""
