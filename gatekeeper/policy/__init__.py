"""Policy: who may do what on which topic, from one YAML file.

The ladder, each rung importing only those below it:

    problem → nodes → reading → pattern → document → parse_* → parse
            → trie → compile → membership → decide → persona → self_test → load
            → reload, explain → report

Everything up to `load` is pure: bytes and values in, values out. `reload` alone looks at a file
and a clock. Nothing here knows of HTTP, TLS, or how a token is verified: an `Identity` comes in
proven. `docs/policy.md` is the prose.
"""
