"""A status is a verdict; what stands beside it says how long to wait."""

import asyncio

import pytest

from sidecar.push.webhook_connection import WebhookConnection, judge


def test_only_a_busy_answer_with_retry_after_speaks_for_all():
    assert judge(429, "7", 0).hold_all
    assert judge(503, "7", 0).hold_all
    assert not judge(503, None, 0).hold_all
    assert not judge(500, "7", 0).hold_all
    assert judge(500, "7", 0).retry_after_s == 7.0


@pytest.mark.parametrize("status", range(200, 600, 7))
def test_two_hundreds_are_delivered_and_nothing_else(status):
    verdict = judge(status, None, 0, b"why\n\x1b")
    assert verdict.delivered == (status < 300)
    assert verdict.reached
    assert verdict.error.isprintable()


async def test_bytes_that_nobody_asked_for_end_the_connection():
    closed = []

    class Transport(asyncio.Transport):
        def abort(self):
            closed.append(True)

        def is_closing(self):
            return bool(closed)

    connection = WebhookConnection()
    connection.connection_made(Transport())
    assert connection.open
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    assert closed
    assert not connection.open
    connection.connection_lost(None)
    assert not (await connection.exchange(b"", b"", 1.0)).delivered
