"""From an error to its answer: problem+json by RFC 9457, from one table per service.

Domain errors know no HTTP. Each service has one `ProblemTable` that names the status and code
of each error type; whatever is not in it becomes a bare 500 with an id that leads to the log
line. May import aiohttp and the log's request id; must never know any service's errors.
"""

import json
import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hosting.logs import request_id

log = logging.getLogger("sidegate.hosting")

CONTENT_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:sidegate:problem:"
REQUEST_ID_HEADER: Final = "Sidegate-Request-Id"
SERVER: Final = "sidegate"
"""In place of aiohttp's, which tells everybody the versions of what it runs on."""
REQUEST_ID: Final = web.RequestKey("sidegate.request_id", str)
_REQUEST_ID_FORM: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DROPPED_HEADERS: Final = frozenset({"content-type", "content-length"})
_CODES: Final = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    411: "length_required",
    413: "too_large",
    415: "unsupported_media_type",
    417: "expectation_failed",
    426: "upgrade_required",
    429: "too_many_requests",
    431: "headers_too_large",
    503: "unavailable",
    504: "timeout",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A kind of answer. `code` is stable and for programs; `title` is for people."""

    status: int
    code: str
    title: str


INTERNAL: Final = Problem(500, "internal", "Unexpected error")
NO_NEW_WORK: Final = Problem(503, "draining", "The service is stopping")
MALFORMED: Final = Problem(400, "malformed_request", "Not a request that HTTP allows")
HEADERS_TOO_LARGE: Final = Problem(431, "headers_too_large", "Request line or headers too large")


class AnswerBroken(ConnectionError):
    """An answer failed after it had begun: only the end of its connection can still say so."""


class BodyTooSlow(TimeoutError):
    """The rest of a request's body did not come in time."""


class BodyBroken(ValueError):
    """A request's body is not encoded as its headers say, or its connection ended early."""


class ProblemTable:
    """Error type → Problem, found along the error's MRO so that a base class covers the rest.

    An error may bring `members` (further JSON members) and `headers` (such as Retry-After).
    """

    def __init__(self, problems: Mapping[type[BaseException], Problem]) -> None:
        self._problems = dict(problems)

    def find(self, error: BaseException) -> Problem | None:
        """The problem of the nearest class of `error`, or None for an unknown error."""
        for kind in type(error).__mro__:
            if kind in self._problems:
                return self._problems[kind]
        return None

    def __iter__(self) -> Iterator[tuple[type[BaseException], Problem]]:
        return iter(self._problems.items())


_ANYWHERE: Final = ProblemTable(
    {
        BodyTooSlow: Problem(408, "request_timeout", "The body took too long"),
        BodyBroken: MALFORMED,
    }
)
"""What can happen to any request, whatever the service."""


def begin_request(request: web.BaseRequest) -> str:
    """The request's id: the caller's where it is well formed, else a new one. Idempotent."""
    known: str | None = request.get(REQUEST_ID)
    if known is not None:
        return known
    given = request.headers.get(REQUEST_ID_HEADER, "")
    chosen = given if _REQUEST_ID_FORM.fullmatch(given) else secrets.token_hex(8)
    request[REQUEST_ID] = chosen
    request_id.set(chosen)
    return chosen


def problem_response(
    problem: Problem,
    detail: str,
    *,
    request_id: str | None = None,
    members: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """The answer. Members never replace the ones that RFC 9457 and Sidegate define."""
    body: dict[str, object] = {
        "type": TYPE_PREFIX + problem.code,
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        "code": problem.code,
    }
    if request_id is not None:
        body["request_id"] = request_id
    for name, value in (members or {}).items():
        body.setdefault(name, value)
    response = web.Response(
        status=problem.status,
        body=json.dumps(body, default=str).encode(),
        content_type=CONTENT_TYPE,
        headers=headers,
    )
    response.headers["Server"] = SERVER
    if request_id is not None:
        response.headers[REQUEST_ID_HEADER] = request_id
    return response


def error_middleware(table: ProblemTable) -> Middleware:
    """The one place where errors become answers. Put it first in the application's list."""

    @web.middleware
    async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        identity = begin_request(request)
        try:
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - this is where every error ends
            response = response_for(error, request, table)
        if not response.prepared:
            response.headers.setdefault(REQUEST_ID_HEADER, identity)
        return response

    return answer_errors


def response_for(
    error: Exception, request: web.BaseRequest, table: ProblemTable
) -> web.StreamResponse:
    """The answer to `error`, or the error again where nobody can be answered any more."""
    identity = begin_request(request)
    if _is_no_problem(error, request):
        raise error
    if isinstance(error, web.RequestPayloadError):
        error = BodyBroken("the body is not encoded as its headers say, or ended too early")
    known = table.find(error) or _ANYWHERE.find(error)
    if known is None and isinstance(error, web.HTTPException):
        answer = _http_problem(error, request, identity)
    else:
        answer = refusal_for(error, table, identity, method=request.method, path=request.path)
    if request.writer.output_size > 0:
        fields = {"status": answer.status, "error": type(error).__name__}
        log.warning("answer broken off", extra={"fields": fields})
        raise AnswerBroken(f"the answer had begun when {type(error).__name__} came") from error
    return answer


def refusal_for(
    error: Exception, table: ProblemTable, identity: str, *, method: str, path: str
) -> web.Response:
    """The answer to an error that is not aiohttp's own."""
    problem = table.find(error) or _ANYWHERE.find(error)
    if problem is not None:
        return problem_response(
            problem,
            str(error),
            request_id=identity,
            members=getattr(error, "members", None),
            headers=getattr(error, "headers", None),
        )
    error_id = secrets.token_hex(8)
    fields = {"error_id": error_id, "method": method, "path": path}
    log.error("unexpected error", exc_info=error, extra={"fields": fields})
    detail = f"the service's log has the cause under the id {error_id}"
    return problem_response(INTERNAL, detail, request_id=identity, members={"error_id": error_id})


def _is_no_problem(error: Exception, request: web.BaseRequest) -> bool:
    """True for a redirect, and for what there is nobody to tell about any more."""
    if isinstance(error, web.HTTPException):
        return error.status < HTTPStatus.BAD_REQUEST
    gone = request.transport is None or request.transport.is_closing()
    return isinstance(error, AnswerBroken) or (gone and isinstance(error, ConnectionError))


def _http_problem(
    error: web.HTTPException, request: web.BaseRequest, identity: str
) -> web.Response:
    phrase = HTTPStatus(error.status).phrase
    code = _CODES.get(error.status, phrase.lower().replace(" ", "_"))
    text = error.text or ""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        detail = f"{request.path} takes {allowed}, not {error.method}"
    elif isinstance(error, web.HTTPNotFound) and text == f"404: {error.reason}":
        detail = f"nothing is served at {request.path}"
    else:
        detail = text if text != f"{error.status}: {error.reason}" else phrase
    headers = {
        name: value for name, value in error.headers.items() if name.lower() not in _DROPPED_HEADERS
    }
    return problem_response(
        Problem(error.status, code, phrase), detail, request_id=identity, headers=headers
    )
