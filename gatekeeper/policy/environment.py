"""What a policy may trust in development only.

Whether this is development is in the gatekeeper's config, never in the policy: a file that could
say so of itself would protect nobody. May import `document` and `hosting`.
"""

from collections.abc import Iterator

from gatekeeper.policy.document import Document
from gatekeeper.policy.problem import PolicyProblem
from hosting.environment import (
    Environment,
    development_identity_problems,
    loopback_issuer_problems,
)


def environment_problems(document: Document, environment: Environment) -> Iterator[PolicyProblem]:
    """A problem for each issuer on a loopback host and each principal of the development trust
    domain, unless this is development."""
    for issuer in document.issuers:
        key = f"issuers.{issuer.name}"
        urls = {"issuer": issuer.settings.issuer, "jwks_uri": issuer.settings.jwks_uri}
        for name, url in urls.items():
            if url is not None:
                for where, text in loopback_issuer_problems(environment, f"{key}.{name}", url):
                    yield PolicyProblem(issuer.line, where, text)
    for principal in document.principals:
        if principal.spiffe is not None:
            key = f"principals.{principal.name}.spiffe"
            for where, text in development_identity_problems(environment, key, principal.spiffe):
                yield PolicyProblem(principal.line, where, text)
