"""`/v1/revocations`: record one, and hear of new ones within moments."""

import asyncio

from aiohttp import web

from core_log.api.query import Query
from core_log.api.reading import WAIT_MS_MAX
from core_log.api.request_body import read_json
from core_log.api.wire import cause_of, json_response
from core_log.clock import Clock
from core_log.control.control import ControlLog
from core_log.control.control_state import ControlState, Fact, Revoked
from core_log.control.revocations import (
    REVOCATIONS_MAX,
    TooManyRevocations,
    newer_than,
    parse_revocation,
    revocation_json,
)
from core_log.control.waiting import first_of


class RevocationRoutes:
    """The handlers of `/v1/revocations`. `draining` ends every wait."""

    def __init__(self, control: ControlLog, clock: Clock, draining: asyncio.Event) -> None:
        self._control = control
        self._clock = clock
        self._draining = draining

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/revocations", self.list)
        app.router.add_post("/v1/revocations", self.revoke)

    async def list(self, request: web.Request) -> web.Response:
        """Revocations that are newer than `after`; waits for one where there is none."""
        query = Query(request.query.items())
        after = query.integer("after", 0)
        wait_s = query.integer("wait_ms", 0, most=WAIT_MS_MAX) / 1000
        query.finish()
        if wait_s and self._control.state.revocations_version == after:
            await first_of(
                self._control.wait_for(lambda state: state.revocations_version != after),
                self._draining.wait(),
                timeout_s=wait_s,
            )
        return json_response(self._answer(self._control.state, after))

    async def revoke(self, request: web.Request) -> web.Response:
        """Record a revocation. The same again takes the place of the first."""
        value = await read_json(request)
        now_us = self._clock.now_us()

        def decide(state: ControlState) -> list[Fact]:
            revocation = parse_revocation(value, now_us=now_us, version=state.version + 1)
            if revocation.key not in state.revocations:
                in_force = sum(each.in_force(now_us) for each in state.revocations.values())
                if in_force >= REVOCATIONS_MAX:
                    raise TooManyRevocations(
                        f"{in_force} revocations are in force and the limit is "
                        f"{REVOCATIONS_MAX}; give revocations an end with until_us"
                    )
            return [Revoked(revocation)]

        state = await self._control.change(decide, cause_of(request))
        return json_response({"version": state.revocations_version}, status=201)

    def _answer(self, state: ControlState, after: int) -> dict[str, object]:
        revocations = newer_than(
            state.revocations.values(), after, newest=state.revocations_version
        )
        return {
            "version": state.revocations_version,
            "revocations": [revocation_json(each) for each in revocations],
        }
