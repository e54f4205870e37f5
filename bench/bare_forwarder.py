"""A bare aiohttp TLS forwarder: the least that any gatekeeper written in Python could cost.

python -m bench.bare_forwarder STATE_FOLDER PORT CORE_URL

It reads a body and sends it on, with the same certificates and the same TLS as the gatekeeper; it
looks at nothing and decides nothing.
"""

import asyncio
import ssl
import sys
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

FRAMES = {"Content-Type": "application/vnd.sidegate.frames"}
BODY_BYTES_MAX = 64 * 1024 * 1024


async def serve(folder: Path, port: int, core: str) -> None:
    """Forward until killed."""
    pair = (folder / "certs/gatekeeper.pem", folder / "certs/gatekeeper.key")
    ca = str(folder / "ca/ca.pem")
    listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    listening.minimum_version = ssl.TLSVersion.TLSv1_3
    listening.verify_mode = ssl.CERT_REQUIRED
    listening.num_tickets = 0
    listening.load_cert_chain(*pair)
    calling = ssl.create_default_context(cafile=ca)
    calling.minimum_version = ssl.TLSVersion.TLSv1_3
    calling.load_cert_chain(*pair)
    connector = aiohttp.TCPConnector(ssl=calling, limit=64)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            async with session.post(f"{core}/v1/append", data=body, headers=FRAMES) as answer:
                return web.Response(body=await answer.read(), status=answer.status)

        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_post("/v1/append", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=listening).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
