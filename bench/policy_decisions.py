"""Decisions of a policy with 10,000 rules: each kind against the time that it may take.

Every decision is for another caller and topic than the one before, so nothing is measured twice in
a row. `first` are the first decisions of callers that the policy has not seen, which includes
looking them up. Prints one JSON object; exits 1 if a median is above its limit.

    python -m bench.policy_decisions [--rules 10000] [--decisions 20000]
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from gatekeeper.identity.identity import Identity
from gatekeeper.policy.decide import Policy
from gatekeeper.policy.load import load_policy

CALLERS = 1000
SHARE_OF = {"exact": 0.4, "wildcard": 0.25, "template": 0.25, "deny": 0.1}
LIMIT_US = {
    "exact allow": 2.0,
    "exact no rule": 2.0,
    "exact deny": 2.0,
    "exact allow, caller with denies": 2.0,
    "wildcard allow": 10.0,
    "wildcard allow, caller with denies": 10.0,
    "template allow": 10.0,
    "template deny": 10.0,
    "unnamed no rule": 10.0,
}
Ask = tuple[Identity, str]


def policy_text(rules: int) -> str:
    """A policy of so many rules. The even callers and the first half of them have denies."""
    count = {kind: int(rules * share) for kind, share in SHARE_OF.items()}
    lines = ["version: 1", "issuers: {corp: {issuer: https://idp.example, audience: log}}"]
    lines += ["principals:"]
    lines += [
        f"  app{n}: {{spiffe: spiffe://example/app{n}, issuer: corp, client_id: app{n}}}"
        for n in range(CALLERS)
    ]
    even = ", ".join(f"app{n}" for n in range(0, CALLERS, 2))
    lines += [f"groups: {{even: [{even}]}}", "topics:"]
    for n in range(count["exact"]):
        lines.append(f"  exact.area{n}.events: {{publish: [app{n % CALLERS}]}}")
    for n in range(count["wildcard"]):
        lines.append(f"  wild.area{n}.*.events: {{publish: [app{n % CALLERS}]}}")
    for n in range(count["template"]):
        lines.append(f'  "team.{{corp:team}}.area{n}.>": {{publish: ["scope:corp:log.publish"]}}')
    lines += ["deny:"]
    for n in range(count["deny"]):
        on = "exact.*.secret" if n % 3 == 0 else f"wild.{{corp:team}}.{n}.>"
        on = f"exact.area{n}.events" if n % 3 == 1 else on
        who = "even" if n % 10 == 0 else f"app{n % (CALLERS // 2)}"
        lines.append(f'  - {{id: D{n}, who: [{who}], do: [publish], on: "{on}"}}')
    return "\n".join(lines) + "\n"


def caller(number: int) -> Identity:
    """One of the policy's principals, as the authenticator would hand it over."""
    claims = {"iss": "https://idp.example", "sub": f"app{number}", "team": f"team-{number}"}
    return Identity(
        spiffe_id=f"spiffe://example/app{number}",
        thumbprint=bytes(32),
        issuer="corp",
        issuer_url="https://idp.example",
        client_id=f"app{number}",
        subject=f"app{number}",
        token_id=str(number),
        scopes=frozenset({"log.publish"}),
        expires_at=1e12,
        claims=claims,
    )


def questions(policy: Policy, rules: int) -> dict[str, list[Ask]]:
    """For each kind, callers and topics that are of it, sorted out by asking."""
    callers = [caller(n) for n in range(CALLERS)]
    kinds: dict[str, list[Ask]] = {kind: [] for kind in LIMIT_US}
    for n in range(int(rules * SHARE_OF["wildcard"])):
        own, other, team = callers[n % CALLERS], callers[(n + 1) % CALLERS], f"team-{n % CALLERS}"
        for family, who, topic in (
            ("exact", own, f"exact.area{n}.events"),
            ("exact", other, f"exact.area{n}.events"),
            ("wildcard", own, f"wild.area{n}.x{n}.events"),
            ("template", own, f"team.{team}.area{n}.a.b"),
            ("template", own, f"wild.{team}.{n}.x"),
            ("unnamed", own, f"nothing.area{n}.here"),
        ):
            kind = kind_of(policy, family, who, topic)
            if kind in kinds:
                kinds[kind].append((who, topic))
    for asked in kinds.values():
        random.shuffle(asked)
    return kinds


def kind_of(policy: Policy, family: str, who: Identity, topic: str) -> str:
    """What a question is an example of."""
    decision = policy.decide(who, "publish", topic)
    if decision.allowed:
        subjects = policy.membership_of(who).subjects
        with_denies = family != "template" and not subjects.isdisjoint(policy.tables.denied)
        return f"{family} allow, caller with denies" if with_denies else f"{family} allow"
    return f"{family} no rule" if decision.rule is None else f"{family} deny"


def measure(decide: Callable[[Identity, Any, str], object], asked: list[Ask], n: int) -> list[int]:
    """Nanoseconds of each of `n` decisions, the clock's own time included."""
    taken = []
    clock = time.perf_counter_ns
    for who, topic in islice(cycle(asked), n):
        # As in a request, the topic is a string that nobody has hashed before.
        fresh = (topic + " ")[:-1]
        began = clock()
        decide(who, "publish", fresh)
        taken.append(clock() - began)
    return taken


def summary(taken_ns: list[int], limit_us: float | None) -> dict[str, float]:
    """Microseconds: median, 99th percentile, and the limit where there is one."""
    cuts = statistics.quantiles(taken_ns, n=100)
    figures = {"p50_us": round(cuts[49] / 1000, 3), "p99_us": round(cuts[98] / 1000, 3)}
    return figures if limit_us is None else {**figures, "limit_us": limit_us}


def main() -> int:
    """Measure and print; 1 if a median is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--decisions", type=int, default=20_000)
    arguments = parser.parse_args()
    random.seed(4)
    data = policy_text(arguments.rules).encode()
    began = time.perf_counter()
    policy = load_policy(data, file="policy.yaml", folder=Path(), environment="production")
    load_s = time.perf_counter() - began
    kinds = questions(policy, arguments.rules)
    results = {
        kind: summary(measure(policy.decide, asked, arguments.decisions), LIMIT_US[kind])
        for kind, asked in kinds.items()
        if asked  # a kind without examples fails below
    }
    strangers = [(caller(n % CALLERS), f"exact.area{n}.events") for n in range(4000)]
    results["first decision of a caller"] = summary(
        measure(policy.decide, strangers, len(strangers)), None
    )
    clock = measure(lambda *_: None, strangers, arguments.decisions)
    print(
        json.dumps(
            {
                "rules": arguments.rules,
                "policy_bytes": len(data),
                "load_s": round(load_s, 3),
                "clock_us": summary(clock, None)["p50_us"],
                "decisions": results,
            },
            indent=2,
        )
    )
    good = [
        kind in results and results[kind]["p50_us"] <= limit for kind, limit in LIMIT_US.items()
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
