"""The development issuer as a service: TLS, HTTP and health around `issuer`.

A client certificate is optional at the door, because anybody may read the metadata and the keys;
the token endpoint itself asks for one.
"""

from __future__ import annotations

from aiohttp import web

from hosting.lifecycle import Service
from hosting.metrics import HttpMetrics, new_registry
from hosting.problems import ProblemTable, error_middleware
from hosting.tls import ReloadingContexts, TlsFiles
from hosting.vitals import add_vitals
from hosting.web import HttpSite, add_health_routes, peer_certificate
from sidegate.development.issuer import KEYS_PATH, TOKEN_PATH, Issuer, Reply
from sidegate.development.issuer_clients import ClientsFile, key_set
from sidegate.development.issuer_config import IssuerConfig

FORM = "application/x-www-form-urlencoded"
# A token request with an assertion signed by a large RSA key has about 2 KiB.
REQUEST_BYTES_MAX = 16 * 1024
METADATA_PATHS = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")


def build(config: IssuerConfig) -> Service:
    """The service of one configuration. Call it in the event loop that will run it."""
    registry = new_registry()
    contexts = ReloadingContexts(
        TlsFiles(config.tls.certificate, config.tls.key),
        client_ca=config.tls.ca,
        client_optional=True,
        ca=config.tls.ca,
    )
    issuer = _issuer(config)
    clients = ClientsFile(config.clients_file, config.clients, issuer.replace_clients)
    service = Service(
        "issuer",
        components=[contexts, clients],
        checks={"tls": contexts.readiness, "clients": clients.readiness},
    )
    app = application(issuer)
    add_health_routes(app, service, registry)
    add_vitals(registry, service, contexts)
    service.add(
        HttpSite("issuer", app, config.listen, ssl=contexts.server, metrics=HttpMetrics(registry))
    )
    return service


def application(issuer: Issuer) -> web.Application:
    """The issuer's routes."""
    app = web.Application(
        middlewares=[error_middleware(ProblemTable({}))], client_max_size=REQUEST_BYTES_MAX
    )

    async def token(request: web.Request) -> web.Response:
        if request.content_type != FORM:
            reply = Reply(
                400,
                {"error": "invalid_request", "error_description": f"Send the body as {FORM}."},
                [("Cache-Control", "no-store")],
            )
        else:
            form = [(name, str(value)) for name, value in (await request.post()).items()]
            reply = issuer.token(
                form, certificate=peer_certificate(request), headers=request.headers
            )
        response = web.json_response(dict(reply.document), status=reply.status)
        for name, value in reply.headers:
            response.headers[name] = value
        return response

    async def metadata(_: web.Request) -> web.Response:
        return web.json_response(issuer.metadata(), headers={"Cache-Control": "max-age=300"})

    async def keys(_: web.Request) -> web.Response:
        return web.json_response(issuer.public_keys(), headers={"Cache-Control": "max-age=300"})

    app.router.add_post(TOKEN_PATH, token)
    app.router.add_get(KEYS_PATH, keys)
    for path in METADATA_PATHS:
        app.router.add_get(path, metadata)
    return app


def _issuer(config: IssuerConfig) -> Issuer:
    """The issuer, which knows no client yet."""
    return Issuer(
        issuer=config.issuer,
        keys=key_set(config.keys),
        clients=[],
        audience=config.audience,
        token_ttl_s=int(config.token_ttl),
    )
