"""The peer of a publish: an aiohttp handler on uvloop that only reads the body and answers.

python -m bench.bare_aiohttp PORT
"""

import asyncio
import sys

import uvloop
from aiohttp import web


async def answer(request: web.Request) -> web.Response:
    """Read the body, say ok."""
    await request.read()
    return web.Response(body=b'{"ok":true}', content_type="application/json")


async def serve(port: int) -> None:
    """Answer until killed."""
    app = web.Application()
    app.router.add_post("/publish", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
