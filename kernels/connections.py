"""Trip rows to connections, sorted, and grouped into connection types."""

from __future__ import annotations

from ..storage.timetable import ALIGHT, BOARD
from .jit import njit


@njit
def fill(trips, offset, vertex, arrival, departure, flags, run_offset, shift, horizon, piece, out):
    """Write the connections of some trips; returns how many. With zero-length `out` it only counts.

    `trips` int64 (first, after last). The other arrays are those of `storage.timetable.Trips`. A position's
    connections lead to each alightable one up to the first that is both alightable and boardable. Where
    `piece` int64[trips] is not 0, a trip is also cut at every `piece`-th position and each piece of two hops
    and more gets a connection of its own, if its ends and all between allow. `out` is a tuple of arrays u, v
    uint32, departure, duration int32, run uint32.
    """
    tail, head, leave, lasts, run_of = out
    writing = len(tail) > 0
    count = 0
    for trip in range(trips[0], trips[1]):
        first, last = offset[trip], offset[trip + 1]
        runs = shift[run_offset[trip] : run_offset[trip + 1]]
        for i in range(first, last - 1):
            if not flags[i] & BOARD:
                continue
            for j in range(i + 1, last):
                if not flags[j] & ALIGHT:
                    continue
                for r in range(len(runs)):
                    second = departure[i] + runs[r]
                    if 0 <= second < horizon:
                        if writing:
                            tail[count], head[count] = vertex[i], vertex[j]
                            leave[count], lasts[count] = second, arrival[j] - departure[i]
                            run_of[count] = run_offset[trip] + r
                        count += 1
                if flags[j] & BOARD:
                    break
        if piece[trip] == 0:
            continue
        for p in range(first, last - 1, piece[trip]):
            q = min(p + piece[trip], last - 1)
            if q - p < 2 or not flags[p] & BOARD or not flags[q] & ALIGHT:
                continue
            through = True
            for k in range(p + 1, q):
                through = through and flags[k] == BOARD | ALIGHT
            if not through:
                continue
            for r in range(len(runs)):
                second = departure[p] + runs[r]
                # The last position before q departs latest, so it decides for all between.
                if 0 <= second < horizon and departure[q - 1] + runs[r] < horizon:
                    if writing:
                        tail[count], head[count] = vertex[p], vertex[q]
                        leave[count], lasts[count] = second, arrival[q] - departure[p]
                        run_of[count] = run_offset[trip] + r
                    count += 1
    return count


@njit
def group_types(order, tail, head, leave, lasts, run, out):
    """Distinct connections and their types from connections in sorted `order`.

    `out` is a tuple of arrays with room for all: type_tail, type_head uint32, type_duration int32, type_offset
    int64 (one more), departure int32, run_offset int64 (one more), runs uint32. Returns (types, connections).
    """
    type_tail, type_head, type_duration, type_offset, departure, run_offset, runs = out
    types = 0
    count = 0
    for k in range(len(order)):
        c = order[k]
        same = False
        if types > 0:
            same = tail[c] == type_tail[types - 1] and head[c] == type_head[types - 1]
            same = same and lasts[c] == type_duration[types - 1]
        if not same:
            type_tail[types], type_head[types], type_duration[types] = tail[c], head[c], lasts[c]
            type_offset[types] = count
            types += 1
        if not same or departure[count - 1] != leave[c]:
            departure[count] = leave[c]
            run_offset[count] = k
            count += 1
        runs[k] = run[c]
    type_offset[types] = count
    run_offset[count] = len(order)
    return types, count
