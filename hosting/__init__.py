"""What every service does alike: configuration, TLS, lifecycle, logs, metrics, problem answers.

May import aiohttp, cryptography, prometheus_client and PyYAML, each only in the module that
needs it, so that reading a configuration stays cheap. Must never know of a topic, an offset, a
policy or any one service.
"""
