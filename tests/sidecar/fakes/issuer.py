"""An issuer of tokens."""

from aiohttp import web

from tests.sidecar.fakes.authority import Authority, Listening


class FakeIssuer:
    """Discovery and a token endpoint that wants the app's certificate."""

    def __init__(self, authority: Authority) -> None:
        self.issued = 0
        self.life_s = 3600
        self.forms: list[dict[str, str]] = []
        self.down = False
        app = web.Application()
        app.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
        app.router.add_post("/token", self._token)
        context = authority.server_context(authority.issue("issuer", "spiffe://test/issuer"))
        self.listening = Listening(app, context)

    async def _metadata(self, _: web.Request) -> web.Response:
        url = self.listening.url
        return web.json_response({"issuer": url, "token_endpoint": f"{url}/token"})

    async def _token(self, request: web.Request) -> web.Response:
        self.forms.append(dict(await request.post()))  # type: ignore[arg-type]
        if self.down:
            return web.json_response({"error": "temporarily_unavailable"}, status=503)
        self.issued += 1
        return web.json_response(
            {
                "access_token": f"token-{self.issued}",
                "token_type": "Bearer",
                "expires_in": self.life_s,
            }
        )
