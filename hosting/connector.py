"""An aiohttp connector that speaks only to servers of named SPIFFE identities.

A host name says where a server is, not who it is: the chain is verified by the context and the
identity by this connector, after the handshake and before any byte of a request. May import
aiohttp, ssl and the SPIFFE ids; must never know which identities a service talks to.
"""

import ssl
from collections.abc import Collection

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace

from hosting.spiffe import NotSpiffe, parse_spiffe_id, spiffe_id_of


class WrongServer(aiohttp.ClientConnectionError):
    """The server is not who it must be. Nothing of the request was sent to it."""


class SpiffeConnector(aiohttp.TCPConnector):
    """Connections over `context` to servers whose certificate names one of `servers`.

    A connection keeps the certificate that it was made with: after a change of certificate,
    make a new connector and close this one.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        servers: Collection[str],
        *,
        limit: int = 100,
        limit_per_host: int = 0,
        keepalive_s: float = 10.0,
    ) -> None:
        if context.verify_mode is not ssl.CERT_REQUIRED:
            raise ValueError("the context must require a certificate of the server")
        # Ours ends an idle connection first, so that no request meets one that is just closing.
        super().__init__(
            ssl=context,
            limit=limit,
            limit_per_host=limit_per_host,
            keepalive_timeout=keepalive_s,
        )
        self._context = context
        self._servers = frozenset(parse_spiffe_id(server) for server in servers)

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp names it
    ) -> ResponseHandler:
        """The hook through which aiohttp makes every new connection, before it sends anything."""
        protocol = await super()._create_connection(req, traces, timeout)
        try:
            self._check(protocol)
        except WrongServer:
            if protocol.transport is not None:
                protocol.transport.abort()
            raise
        return protocol

    def _check(self, protocol: ResponseHandler) -> None:
        transport = protocol.transport
        tls = None if transport is None else transport.get_extra_info("ssl_object")
        if tls is None:
            raise WrongServer("the server must be reached with https")
        if tls.context is not self._context:
            raise WrongServer("a request may not bring a TLS context of its own")
        der = tls.getpeercert(binary_form=True)
        if not der:
            raise WrongServer("the server showed no certificate")
        try:
            server = spiffe_id_of(der)
        except NotSpiffe as error:
            raise WrongServer(f"the server's certificate carries no SPIFFE id: {error}") from error
        if server not in self._servers:
            expected = ", ".join(sorted(self._servers))
            raise WrongServer(f"the server is {server}, where {expected} is expected")
