"""The page for app developers says what the code does."""

import re
from pathlib import Path

from sidecar.api.operations import OPERATIONS
from sidecar.publish.batch import Ack
from sidecar.publish.outcome import OUTCOMES, Answer, Situation

PAGE = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()


def test_the_table_of_answers_is_the_one_in_the_code():
    rows = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] in {situation.value for situation in Situation}:
            rows[cells[0]] = cells[1:]
    assert set(rows) == {situation.value for situation in Situation}
    for situation, row in OUTCOMES.items():
        acks = (Ack.AUTO, Ack.CORE, Ack.SIDECAR, Ack.NONE)
        for ack, shown in zip(acks, rows[situation.value], strict=True):
            answer = row[ack]
            if answer is Answer.WAIT:
                assert shown == "200, or 504"
            elif answer is Answer.UNCONCERNED:
                assert shown == "as without a spool"
            else:
                status, word = answer.value
                assert shown == f"{status} `{word}`", (situation, ack)


def test_every_path_that_the_page_names_is_served():
    served = {re.sub(r"\{\w+\}", "*", operation.path) for operation in OPERATIONS}
    served |= {"/docs", "/openapi.json", "/readyz", "/healthz", "/metrics"}
    named = set(re.findall(r"localhost:9000(/[a-z0-9/._-]*)", PAGE))
    named |= set(re.findall(r"(?:GET|POST|DELETE) (/[a-z{}/]+)", PAGE))
    for path in named:
        parts = path.strip("/").split("/")
        assert any(
            len(parts) == len(pattern.strip("/").split("/"))
            and all(
                wanted in ("*", given) or given.startswith("{")
                for given, wanted in zip(parts, pattern.strip("/").split("/"), strict=True)
            )
            for pattern in served
        ), path
