"""From the log to an app that reads: streams, members, filters, and every form of output."""
