"""`GET /whoami`: who this sidecar, and with it its app, is to the gatekeeper, and what it may do.

Asked of a gatekeeper each time, so that the answer is what the next publish will meet.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from sidecar.api.api_types import NoQuery, parse_query
from sidecar.api.http_topics import passed_on
from sidecar.delivery.reader import unreachable
from sidecar.uplink.gateway import Gateway, Unreachable


def whoami_handler(gateway: Gateway) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler, which passes the question on."""

    async def whoami(request: web.Request) -> web.Response:
        parse_query(request.query, NoQuery)
        try:
            answer = await gateway.ask("GET", "/v1/whoami")
        except Unreachable as error:
            raise unreachable(error) from error
        response = passed_on(answer)
        response.headers["Cache-Control"] = "no-store"
        return response

    return whoami
