"""Reads the spool's files as batches: what an earlier run has left, and what is sent next.

Blocking, for the spool's own thread. What is no frame is set aside and stops nothing.
"""

import logging
import time
from typing import Final

from log_format.errors import FormatError
from log_format.frame import decode_frame
from sidecar.delivery.record_id import scoped_id
from sidecar.publish.backlog import Backlog
from sidecar.publish.batch import Batch, stored_batch
from sidecar.spool.quarantine import Quarantine
from sidecar.spool.spool_files import SpoolFiles, Stored

log = logging.getLogger("sidegate.sidecar")

Backlogs = dict[tuple[str, int], Backlog]
"""By topic and partition."""
_ASIDE: Final = "a spooled batch is no frame; it was set aside"
_STAYS: Final = "a spooled batch is no frame; it stays"


class SpoolReader:
    """The reading side of one spool. Not thread-safe."""

    def __init__(self, files: SpoolFiles, quarantine: Quarantine) -> None:
        self._files = files
        self._quarantine = quarantine

    @property
    def quarantined(self) -> int:
        """Batches that were set aside."""
        return self._quarantine.batches

    def open(self, backlogs: Backlogs) -> None:
        """Open the files; fill `backlogs` with all that is unsettled.

        SpoolFull or SpoolFailed where nothing can be written: the backlogs are whole all the same.
        """
        set_aside: list[int] = []

        def found(stored: Stored) -> None:
            try:
                frame = decode_frame(stored.frame)
                columns = frame.columns()
            except FormatError as error:
                if self._set_aside(stored, error):
                    set_aside.append(stored.position)
                return
            producer = frame.envelope.producer
            backlog = backlogs.setdefault((producer.topic, producer.partition), Backlog())
            if not columns.id.all_null:
                scoped = map(scoped_id, columns.id, columns.headers)
                backlog.ids += [identity for identity in scoped if identity is not None]
            backlog.add(stored.order, stored.position, stored.written_us, producer.count)

        self._files.open(found)
        if set_aside:
            self._files.mark(set_aside, time.time_ns() // 1000)

    def batches(self, positions: list[int]) -> list[Batch | None]:
        """The batches at these positions, None where one is lost or no frame."""
        found: list[Batch | None] = []
        for position in positions:
            stored = self._files.read(position)
            batch = None
            if stored is not None:
                raw = bytes(stored.frame)
                try:
                    batch = stored_batch(decode_frame(raw), raw, position, stored.order)
                except FormatError as error:
                    self._set_aside(stored, error)
            found.append(batch)
        return found

    def _set_aside(self, stored: Stored, why: FormatError) -> bool:
        """Quarantine a batch. False where the disk does not take it, and it has to stay."""
        fields: dict[str, object] = {"reason": str(why), "order": stored.order}
        try:
            fields["file"] = str(self._quarantine.keep(stored, str(why)))
        except OSError as error:
            fields["error"] = str(error)
            log.critical(_STAYS, extra={"fields": fields})
            return False
        log.error(_ASIDE, extra={"fields": fields})
        return True
