"""Remembers over restarts how topics are divided, for a sidecar that starts while nobody answers.

Without it, a key's messages would go to the first partition until the log can be asked, and to
another one after that: their order would be lost. Blocking, small, written only when a topic is
new or was changed.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from sidecar.spool.whole_file import replace_file

log = logging.getLogger("sidegate.sidecar")


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What publishing needs to know of a topic. The default is what an unknown one is taken for."""

    partitions: Annotated[int, msgspec.Meta(ge=1)] = 1
    strategy: str = "key"


class TopicMemory:
    """Descriptions by topic, without those that are as the default. File: `topics.json`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "topics.json"
        self.topics: dict[str, TopicInfo] = {}
        try:
            self.topics = msgspec.json.decode(self._path.read_bytes(), type=dict[str, TopicInfo])
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            # The log knows better; this is only for the time until it can be asked.
            fields = {"file": str(self._path), "error": str(error)}
            log.warning("topics of earlier runs are not known", extra={"fields": fields})

    def note(self, topic: str, info: TopicInfo, at_most: int) -> None:
        """The log has described a topic."""
        if self.topics.get(topic, TopicInfo()) == info:
            return
        self.topics.pop(topic, None)
        if info != TopicInfo():
            self.topics[topic] = info
        while len(self.topics) > at_most:
            del self.topics[next(iter(self.topics))]
        try:
            replace_file(self._path, msgspec.json.encode(self.topics))
        except OSError as error:
            fields = {"file": str(self._path), "error": str(error)}
            log.warning("a topic could not be noted", extra={"fields": fields})
