"""Many values of one histogram at once: the gaps between a stream's chunks.

The OpenTelemetry SDK records one value at a time, and hashes the same attributes anew for each: 5
to 10 us a chunk, as much as all else that is done for a call. Its aggregation is a list of counts,
so a call's values can be counted first and added in one go. That reaches into the SDK
(`sdk.metrics._internal`, 1.30 to 1.45 alike but for the key of an attribute set); where anything
there is not as known here (another SDK, a view with another aggregation, deltas that begin anew
with each collection), each value is recorded by itself, as usual. Only the first may become an
exemplar.
"""

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

A_STEP = 16
"""Values recorded one by one at a stretch, before others may run."""
FEW = 4
"""Up to so many are recorded one by one."""


def record_many(
    histogram: Any, values: Sequence[float], attributes: Mapping[str, Any], context: Any
) -> Iterator[None]:
    """Records each value, in steps between which others may run. histogram: an instrument of the
    application's meter; context: where an exemplar's trace would come from."""
    # The first one makes what the SDK keeps of a new attribute set.
    histogram.record(values[0], attributes, context)
    yield
    rest = values[1:]
    if len(rest) > FEW and _added(histogram, rest, attributes):
        return
    for number, value in enumerate(rest, 1):
        histogram.record(value, attributes, context)
        if number % A_STEP == 0:
            yield


def _added(histogram: Any, values: Sequence[float], attributes: Mapping[str, Any]) -> bool:
    """Whether the values stand in every aggregation of the histogram; none does where one is not
    of the known kind."""
    try:
        places = [_place(match, attributes) for match in _matches(histogram)]
        if not places or any(place is None for place in places):
            return False
    except Exception:
        return False
    for place in places:
        _add(place, values)
    return True


def _matches(histogram: Any) -> list[Any]:
    """One for each metric reader and view."""
    storages = histogram._measurement_consumer._reader_storages.values()
    return [
        match
        for storage in storages
        for match in storage._instrument_view_instrument_matches[histogram]
    ]


def _place(match: Any, attributes: Mapping[str, Any]) -> Any:
    """The aggregation of this attribute set; null where it is none of explicit buckets, or one that
    the next collection takes away."""
    if getattr(match, "_reset_on_collect", False):
        return None
    kept = match._view._attribute_keys
    known = {key: value for key, value in attributes.items() if kept is None or key in kept}
    found = match._attributes_aggregation[_key(match, known)]
    whole = {"_lock", "_value", "_sum", "_min", "_max", "_record_min_max"} <= vars(found).keys()
    return found if whole and len(found._value) == len(found._boundaries) + 1 else None


def _key(match: Any, attributes: Mapping[str, Any]) -> Any:
    """How this release of the SDK names an attribute set."""
    module = sys.modules[type(match).__module__]
    hashed = getattr(module, "_hash_attributes", None)
    return frozenset(attributes.items()) if hashed is None else hashed(attributes)


def _add(place: Any, values: Sequence[float]) -> None:
    counts = Counter(map(partial(bisect_left, place._boundaries), values))
    total, least, most = sum(values), min(values), max(values)
    with place._lock:
        if place._value is None:  # collected since
            place._value = [0] * (len(place._boundaries) + 1)
        for bucket, count in counts.items():
            place._value[bucket] += count
        place._sum += total
        if place._record_min_max:
            place._min = min(place._min, least)
            place._max = max(place._max, most)
