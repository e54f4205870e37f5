"""`/v1/topics`: list, create, describe, alter, delete, and offsets by time."""

import asyncio

from aiohttp import web

from core_log.api.query import Query
from core_log.api.request_body import read_json
from core_log.api.wire import cause_of, if_version, json_response
from core_log.control.catalog import Catalog
from core_log.control.topic_json import parse_change, parse_definition, topic_json
from core_log.control.topic_log import TopicLog
from core_log.control.topics import BadTopic, Topic
from log_format.errors import BadField
from log_format.topic import check_any_topic


class TopicRoutes:
    """The handlers of `/v1/topics`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/topics", self.list)
        app.router.add_post("/v1/topics", self.create)
        app.router.add_get("/v1/topics/{name}", self.describe)
        app.router.add_patch("/v1/topics/{name}", self.alter)
        app.router.add_delete("/v1/topics/{name}", self.delete)
        app.router.add_get("/v1/topics/{name}/offsets", self.offsets)

    async def list(self, request: web.Request) -> web.Response:
        """All topics, the system's own included, in order of name."""
        Query(request.query.items()).finish()
        topics = [self._catalog.get(name) for name in self._catalog.names()]
        return json_response({"topics": [self._shown(topic) for topic in topics]})

    async def create(self, request: web.Request) -> web.Response:
        """201 for a new topic, 200 for the same again."""
        wanted = parse_definition(await read_json(request))
        topic, made = await self._catalog.create(wanted, cause_of(request))
        return self._answer(topic, status=201 if made else 200)

    async def describe(self, request: web.Request) -> web.Response:
        """One topic; with `create=1` it is made first, where the configuration allows that."""
        query = Query(request.query.items())
        create = query.integer("create", 0, most=1)
        query.finish()
        name = _name_of(request)
        if create:
            return self._answer(await self._catalog.ensure(name, cause_of(request)))
        return self._answer(self._catalog.get(name))

    async def alter(self, request: web.Request) -> web.Response:
        """Change some fields. With `If-Match: "version"`, only that version."""
        change = parse_change(await read_json(request))
        topic = await self._catalog.alter(
            _name_of(request), change, if_version=if_version(request), cause=cause_of(request)
        )
        return self._answer(topic)

    async def delete(self, request: web.Request) -> web.Response:
        """End a topic. Its messages go with the cleaner's next rounds."""
        await self._catalog.delete(
            _name_of(request), if_version=if_version(request), cause=cause_of(request)
        )
        return web.Response(status=204)

    async def offsets(self, request: web.Request) -> web.Response:
        """Where each partition begins and ends, and the first offset at or after a time."""
        query = Query(request.query.items())
        time_us = query.integer("time_us", -1)
        query.finish()
        log = self._catalog.log_of(self._catalog.get(_name_of(request)))
        found: list[int | None] = [None] * log.topic.partitions
        if time_us >= 0:
            found = list(
                await asyncio.gather(
                    *(log.offset_for_time(n, time_us) for n in range(log.topic.partitions))
                )
            )
        partitions = [
            {
                "partition": extent.partition,
                "start_offset": extent.start,
                "end_offset": extent.end,
                "offset": extent.start if offset is None else offset,
            }
            for extent, offset in zip(log.extents(), found, strict=True)
        ]
        return json_response({"partitions": partitions})

    def _answer(self, topic: Topic, *, status: int = 200) -> web.Response:
        headers = {"ETag": f'"{topic.version}"'}
        return json_response(self._shown(topic), status=status, headers=headers)

    def _shown(self, topic: Topic) -> dict[str, object]:
        return {**topic_json(topic), "offsets": _offsets(self._catalog.log_of(topic))}


def _offsets(log: TopicLog) -> "list[dict[str, int]]":
    return [
        {"partition": each.partition, "start_offset": each.start, "end_offset": each.end}
        for each in log.extents()
    ]


def _name_of(request: web.Request) -> str:
    try:
        return check_any_topic(request.match_info["name"])
    except BadField as error:
        raise BadTopic(f"name: {str(error).removeprefix('topic: ')}") from error
