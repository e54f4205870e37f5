"""Why is it stuck: what this sidecar does for a push subscription just now, as a document. Pure."""

from typing import Any

from sidecar.delivery.rendering import render_time
from sidecar.push.parcel import State
from sidecar.push.push_worker import PushWorker
from sidecar.push.pushes import Running


def delivery_view(running: Running | None, now_s: float, now_us: int) -> dict[str, Any]:
    """The document; `elsewhere` where this sidecar does not carry it out."""
    worker = None if running is None else running.worker
    view: dict[str, Any] = {
        "state": "elsewhere",
        "in_flight": 0,
        "held": 0,
        "delivered": 0,
        "failed": 0,
        "dead_lettered": 0,
        "dropped": 0,
        "filtered": 0,
        "last_error": None,
        "last_error_at": None,
        "last_status": None,
        "next_try": None,
        "unreachable_since": None,
    }
    if running is None:
        return view
    total = type(running.tally)()
    total.add(running.tally)
    view |= {"state": "failed" if running.error else "starting", "last_error": running.error}
    if worker is not None:
        total.add(worker.tally)
        view |= _working(worker, now_s, now_us)
    return view | {
        "delivered": total.delivered,
        "failed": total.failed,
        "dead_lettered": total.dead,
        "dropped": total.dropped,
        "filtered": total.filtered,
    }


def _working(worker: PushWorker, now_s: float, now_us: int) -> dict[str, Any]:
    queue, tally = worker.queue, worker.tally
    next_s, down_us, last = queue.next_try_s(), queue.down_since_us, tally.last_error
    return {
        "state": _state(worker),
        "in_flight": queue.busy,
        "held": queue.held,
        "last_error": tally.bury_error or (None if last is None else last.error),
        "last_error_at": None if last is None else _moment(last.at_us),
        "last_status": None if last is None else last.status,
        "next_try": None
        if next_s is None
        else _moment(now_us + round(max(0.0, next_s - now_s) * 1_000_000)),
        "unreachable_since": None if down_us is None else _moment(down_us),
    }


def _state(worker: PushWorker) -> str:
    if not worker.connected:
        return "starting"
    if worker.paused:
        return "paused"
    if worker.queue.down_since_us is not None:
        return "unreachable"
    resting = any(each.state in (State.RESTING, State.UNBURIED) for each in worker.queue)
    return "retrying" if resting else "delivering"


def _moment(at_us: int) -> str:
    return render_time(at_us).decode("ascii")
