"""The page of /metrics, rendered once for each state of affairs and each format, and served as a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sparkd.model.view import ClusterView
from sparkd.reporting.copies import Copy, Picture, Shown
from sparkd.reporting.metrics import PARTS, Counters, gauge

log = structlog.get_logger("sparkd.metrics")

OPENMETRICS = "application/openmetrics-text"


class Exporter:
    """The page of /metrics: rendered once for each state of affairs and each format, and served as a copy."""

    def __init__(self, shown: Shown, counters: Counters) -> None:
        self._shown, self._counters = shown, counters
        self._copies: dict[str, Copy] = {}
        self._of: tuple[Picture | None, int] = (None, -1)

    def page(self, accept: str) -> tuple[bytes, str]:
        """(body, content type): OpenMetrics where the client's Accept header names it, else the older format.

        No more of the header counts: the library would repeat any version that a client makes up, and render for each.
        """
        asked = {one.partition(";")[0].strip() for one in accept.split(",")}
        encode, content_type = choose_encoder(OPENMETRICS if OPENMETRICS in asked else "")
        now = self._shown.view()
        of = (self._picture(now), self._counters.counted)
        if of != self._of:
            self._of, self._copies = of, {}
        if content_type not in self._copies:
            self._copies[content_type] = _rendered(encode, now, of[0], self._counters)
        return self._copies[content_type].served(now), content_type

    def _picture(self, now: ClusterView) -> Picture | None:
        try:
            return self._shown.picture(now)
        except Exception:
            log.exception("the status cannot be made; only counters are shown")
            return None


def _rendered(
    encode: Callable[[Collector], bytes], view: ClusterView, picture: Picture | None, counters: Counters
) -> Copy:
    registry = CollectorRegistry()
    if picture is not None:
        registry.register(_Seen(view, picture))
    registry.register(_Counted(counters))
    page = encode(registry)
    return Copy((page,), ()) if picture is None else picture.blanks.copy(page)


class _Counted(Collector):
    """The counters without `_created`: in the plain format those would be metrics of their own."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        for metric in self._counters.registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _Seen(Collector):
    """Everything that is read off the view."""

    def __init__(self, view: ClusterView, picture: Picture) -> None:
        self._view, self._picture = view, picture

    def describe(self) -> Iterable[Metric]:
        """Nothing: without this, registering would collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        snapshot = self._view.snapshot
        age = self._picture.blanks.age(snapshot.at) if snapshot is not None else None
        yield gauge("snapshot_age_seconds", "Age of the last look at the nodes.", (), [((), age)])
        for part in PARTS:
            try:
                yield from part(self._view, self._picture.blanked)
            except Exception:
                # One part that raises would take the whole page down, in the middle of the incident
                # (prometheus/client_python#84); this is a boundary, like that of the API.
                log.exception("a part of the metrics failed", part=repr(part))
