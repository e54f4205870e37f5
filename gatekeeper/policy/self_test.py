"""The file's own tests, which must pass before it takes effect. May import `decide`, `persona`."""

from collections.abc import Iterator
from dataclasses import dataclass

from gatekeeper.policy.decide import Decision, Policy
from gatekeeper.policy.document import Example
from gatekeeper.policy.persona import Personas
from gatekeeper.policy.problem import PolicyProblem


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test and what the policy answered."""

    place: int
    example: Example
    decision: Decision

    @property
    def passed(self) -> bool:
        """True where the answer is the expected one."""
        return self.decision.allowed == self.example.allowed

    @property
    def problem(self) -> PolicyProblem:
        """A failed test as a problem of the file."""
        wanted = "allow" if self.example.allowed else "deny"
        return PolicyProblem(
            self.example.line,
            f"tests[{self.place}]",
            f"expected {wanted}, but {self.decision.text}",
        )


def run_tests(policy: Policy) -> Iterator[Outcome]:
    """Every test of the file, answered by the policy that the file makes."""
    personas = Personas(policy.document)
    for place, example in enumerate(policy.document.examples):
        caller = personas.make(
            example.caller,
            issuer=example.issuer,
            claims=dict(example.claims),
            scopes=frozenset(example.scopes),
        )
        yield Outcome(place, example, policy.decide(caller, example.do, example.on, example.owner))
