"""Signatures are what the Standard Webhooks library of PyPI verifies."""

import base64
import secrets
import time

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from sidecar.push.webhook_signature import BadSecret, parse_secret, sign

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def headers(signature, now_s):
    return {"webhook-id": "msg_1", "webhook-timestamp": str(now_s), "webhook-signature": signature}


def test_the_library_verifies_what_is_signed():
    now_s, body = int(time.time()), '{"n": "ü"}'
    signature = sign([parse_secret(SECRET)], "msg_1", now_s, body.encode())
    assert Webhook(SECRET).verify(body, headers(signature, now_s)) == {"n": "ü"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify('{"n": "u"}', headers(signature, now_s))


def test_with_two_secrets_either_verifies():
    other = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    now_s = int(time.time())
    signature = sign([parse_secret(SECRET), parse_secret(other)], "msg_1", now_s, b"{}")
    for secret in (SECRET, other):
        assert Webhook(secret).verify("{}", headers(signature, now_s)) == {}


def test_the_vector_of_the_specification():
    """standard-webhooks/spec: the example that its libraries test themselves with."""
    key = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = sign([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "whsec_",
        "whsec_!!!",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
    ],
)
def test_what_is_no_secret_is_refused_without_being_quoted(text):
    with pytest.raises(BadSecret) as caught:
        parse_secret(text)
    assert not text or text.removeprefix("whsec_") not in str(caught.value) or text == "whsec_"
