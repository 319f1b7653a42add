"""The many-query kernel: a block of threads answers one query after another, each whole, on the device.

Label-correcting search in time order over edge profiles, as on the CPU, with a block's threads over the frontier's
edges: those of a warp's vertices are dealt out evenly over its lanes, and those that may lower a label are gathered,
so that the lanes have a departure each to look up. Vertices of the open time bucket are queued for the next round of
the block, later ones wait in a list until their bucket opens.

Labels lie in shared memory as 16-bit offsets from a base where the network is small enough. What lies beyond 16
bits is found in another epoch: labels so far are kept as seconds in device memory, their offset becomes 0, and
the search goes on from a later base. For larger networks labels are seconds in device memory.

Queries of one origin shortly after one another form a chain, the latest first. Who leaves earlier reaches all that
who leaves later does, so labels stay and only improvements spread (as in range queries of RAPTOR).
"""

from __future__ import annotations

from numba import cuda, int32, int64, uint32, uint64

from . import block, device_answers, frontier, sectors, warp
from .block import (
    ADVANCED,
    AIM,
    BASE,
    BEYOND,
    CONTROL,
    COUNT,
    EPOCHS,
    FAR,
    GATHERED,
    LEFT,
    LIMIT,
    LISTS,
    LOST,
    OPEN,
    QUERY,
    SETTLED,
    WORK,
    Shape,
)
from .device_labels import NEVER, ONE
from .warp import WIDTH, device

REGISTERS = 40  # of a thread: as many as 1,536 threads of a multiprocessor can have
SHARE = 8  # vertices of a round that a warp takes at least


@device
def next_counter(counter):
    return uint32(uint32(counter + ONE) & uint32(3))


def make(shape: Shape):
    """The kernel of a shape, compiled when it is called.

    Of its arguments, those of a store are those of `pipeline.gpu.host_arrays`, those of queries of `query_arrays`;
    `groups`, `bits` and `slots` those of `sectors`; `width` the seconds of a bucket; `per_warp` 65,535 over the
    warps of a block (to divide costs 40 instructions a round); `scratch` what `block.scratch_words` says for each
    block, with `room` entries in a list; `out` and `sums` the answers. Blocks are as many as one likes, threads
    of a block a multiple of 32.
    """
    lookup, _, _ = sectors.make(shape.wide)
    narrow, walking, ring = shape.narrow, shape.walking, uint32(block.QUEUE)
    words_of_entry = 1 if narrow else 2
    queue_end = CONTROL + block.QUEUE * words_of_entry
    get, waiting_at, second_of, may_lower, relax, push, advance, clear, collect, next_epoch = frontier.make(narrow)
    least_share = uint32(min(WIDTH, SHARE))
    earliest, write = device_answers.make(shape.answer, second_of)

    @cuda.jit(**({} if warp.SIMULATED else {"max_registers": REGISTERS}))
    def kernel(
        vertices,
        vertex_edges,
        edge,
        groups,
        bits,
        slots,
        slot,
        list_slots,
        index,
        word,
        shift,
        vertex_foot,
        foot,
        place,
        place_vertex,
        width,
        per_warp,
        chain,
        row,
        leave,
        limits,
        source_offset,
        source,
        target,
        target_vertex,
        cutoffs,
        weights,
        scratch,
        room,
        next_chain,
        out,
        sums,
    ):
        tid, size = uint32(cuda.threadIdx.x), uint32(cuda.blockDim.x)
        lane, this_warp = int32(tid % uint32(WIDTH)), uint32(tid // uint32(WIDTH))
        warps = uint32(size // uint32(WIDTH))
        shared = cuda.shared.array(0, uint32)
        control, queue = shared[:CONTROL], shared[CONTROL:queue_end]
        # Of a warp: edges, times and heads of up to two for each lane; times and first edges of its vertices.
        gathered = uint32(uint32(queue_end) + this_warp * uint32(GATHERED * WIDTH))
        at_block = int64(cuda.blockIdx.x) * (int64(vertices) + LISTS * int64(room) * words_of_entry)
        kept = scratch[at_block : at_block + vertices]
        lists = scratch[at_block + vertices :]
        if narrow:
            label_words = uint32(uint32(vertices + uint32(1)) >> uint32(1))
            labels = shared[queue_end + GATHERED * size :]
        else:
            label_words = vertices
            labels = kept
        side = uint32(0)  # of the far list that is filled
        while True:
            cuda.syncthreads()
            if tid == 0:
                control[WORK] = uint32(cuda.atomic.add(next_chain, 0, uint32(1)))
            cuda.syncthreads()
            if int32(control[WORK]) >= int32(chain.size - 1):
                break
            q = chain[control[WORK]]
            begun = False
            while q < chain[control[WORK] + uint32(1)]:
                # After more than one epoch the labels are of no use to the next query.
                anew = not begun or control[EPOCHS] != uint32(0)
                cuda.syncthreads()
                if anew:
                    clear(labels, size, label_words)
                if tid == 0:
                    for k in range(4):
                        control[COUNT + k] = uint32(0)
                    if anew:
                        control[BASE] = uint32(leave[chain[control[WORK] + uint32(1)] - uint32(1)] if narrow else 0)
                        control[EPOCHS] = uint32(0)
                        control[BEYOND] = uint32(0)
                        control[LOST] = uint32(0)
                        control[FAR], control[FAR + 1] = uint32(0), uint32(0)
                    control[LIMIT] = uint32(max(limits[q], leave[q]))
                    control[SETTLED] = uint32(0)
                    control[OPEN] = uint32(leave[q] - int32(control[BASE]) + width)
                    control[ADVANCED] = uint32(0)
                    control[QUERY] = q
                cuda.syncthreads()
                counter, begin, free = uint32(COUNT), uint32(0), ring
                first = source_offset[q]
                while first < source_offset[q + uint32(1)]:
                    v, reached = uint32(0), int32(-1)
                    if first + tid < source_offset[q + uint32(1)]:
                        v, reached = source[first + tid], leave[q]
                    label = relax(labels, control, v, reached)
                    push(queue, lists, room, control, counter, begin, free, side, v, label)
                    first = uint32(first + size)
                cuda.syncthreads()
                while True:
                    # A round. Its entries are `waiting` from `begin` on; those of the next follow.
                    now_counter, counter = counter, next_counter(counter)
                    waiting = min(control[now_counter], uint32(free + room))
                    if tid == 0:
                        control[next_counter(counter)] = uint32(0)
                    if waiting == 0:
                        left, open_until, settled_until = control[LEFT], int32(control[OPEN]), int32(control[SETTLED])
                        lost, beyond = control[LOST], control[BEYOND]
                        advanced = control[ADVANCED] != uint32(0)
                        again = lost != uint32(0)
                        cuda.syncthreads()
                        if again:
                            pass  # with all that may be lost
                        elif not advanced:
                            # The bucket is done: open the next.
                            settled_until = open_until
                            open_until = int32(min(int64(open_until) + width, NEVER))
                        elif left != uint32(NEVER):
                            # The next is empty: open that of the earliest label.
                            settled_until = int32(left)
                            open_until = int32(min(int64(settled_until) + width, NEVER))
                        elif narrow and beyond:
                            next_epoch(labels, kept, control, size, vertices)
                            settled_until, open_until = int32(0), int32(width)
                            again = True
                        else:
                            break
                        if tid == 0:
                            control[SETTLED], control[OPEN] = uint32(settled_until), uint32(open_until)
                            control[ADVANCED] = uint32(0 if again else 1)
                        cuda.syncthreads()
                        if again:
                            collect(labels, lists, room, control, side, size, vertices)
                        else:
                            if int64(int32(control[BASE])) + settled_until > int32(control[LIMIT]):
                                break
                            if target.size:
                                if tid == 0:
                                    aim = earliest(labels, kept, control, target[control[QUERY]], target_vertex)
                                    control[AIM] = uint32(aim)
                                cuda.syncthreads()
                                if int32(control[AIM]) < int32(control[BASE]) + settled_until:
                                    break
                        side = uint32(side ^ uint32(1))
                        free = ring
                        advance(labels, queue, lists, room, control, counter, begin, free, side, size)
                    else:
                        if tid == 0:
                            control[ADVANCED] = uint32(0)
                        queued = min(waiting, free)
                        until, spare = uint32(begin + queued), uint32(ring - queued)
                        if until >= ring:
                            until = uint32(until - ring)
                        taken = uint32(0)
                        start, degree = int32(0), int32(0)
                        items, done, pending = int32(0), int32(0), int32(0)
                        while True:
                            if done >= items and taken < waiting:
                                # A vertex a lane, or what is left in equal shares.
                                share = uint32(WIDTH)
                                if uint32(waiting - taken) < size:
                                    share = uint32(uint32(uint32(waiting - taken) * per_warp) >> uint32(16))
                                    share = max(least_share, uint32(share + ONE))
                                mine = uint32(taken + this_warp * share)
                                taken = uint32(taken + warps * share)
                                if mine < waiting:
                                    now, first, degree = int32(0), uint32(0), int32(0)
                                    foot_first, walks = uint32(0), int32(0)
                                    i = uint32(mine + uint32(lane))
                                    if uint32(lane) < share and i < waiting:
                                        v, label = waiting_at(queue, lists, room, now_counter, begin, free, i)
                                        if get(labels, v) == label:
                                            now = int32(int32(control[BASE]) + label)
                                            if narrow and label == 0 and control[EPOCHS]:
                                                now = int32(kept[v])
                                            if uint32(now) >> bits < slots:
                                                pair = vertex_edges[v]
                                                first, degree = uint32(pair), int32(pair >> uint64(32))
                                            if walking:
                                                pair = vertex_foot[v]
                                                foot_first, walks = uint32(pair), int32(pair >> uint64(32))
                                    if walking:
                                        start, items = warp.deal(shared, gathered, foot_first, now, walks, lane)
                                        done = int32(0)
                                        while done < items:
                                            f, then = warp.dealt(shared, gathered, start, walks, done, lane)
                                            head, reached = uint32(0), int32(-1)
                                            if int32(done + lane) < items:
                                                record = foot[f]
                                                head = uint32(record)
                                                reached = int32(then + int32(record >> uint64(32)))
                                                if not may_lower(labels, control, head, reached):
                                                    reached = int32(-1)
                                            label = relax(labels, control, head, reached)
                                            push(
                                                queue,
                                                lists,
                                                room,
                                                control,
                                                counter,
                                                until,
                                                spare,
                                                side,
                                                head,
                                                label,
                                            )
                                            done = int32(done + WIDTH)
                                        warp.together()
                                    start, items = warp.deal(shared, gathered, first, now, degree, lane)
                                    done = int32(0)
                            # Edges that may lower a label are gathered, until there is one for each lane.
                            if done < items:
                                e, then = warp.dealt(shared, gathered, start, degree, done, lane)
                                head, promising = uint32(0), False
                                if int32(done + lane) < items:
                                    record = edge[e]
                                    head = uint32(record)
                                    promising = may_lower(
                                        labels, control, head, int32(then + int32(record >> uint64(32)))
                                    )
                                votes = warp.votes(promising)
                                if promising:
                                    at = uint32(gathered + uint32(pending + warp.before(votes)))
                                    shared[at] = e
                                    shared[uint32(at + uint32(2 * WIDTH))] = uint32(then)
                                    shared[uint32(at + uint32(4 * WIDTH))] = head
                                pending = int32(pending + int32(cuda.popc(votes)))
                                done = int32(done + int32(WIDTH))
                                warp.together()
                            last = done >= items and taken >= waiting
                            if pending >= WIDTH or (last and pending):
                                rest = max(int32(pending - int32(WIDTH)), int32(0))
                                head, reached = uint32(0), int32(-1)
                                if int32(rest + lane) < pending:
                                    at = uint32(gathered + uint32(rest + lane))
                                    e = shared[at]
                                    then = int32(shared[uint32(at + uint32(2 * WIDTH))])
                                    head = shared[uint32(at + uint32(4 * WIDTH))]
                                    reached = lookup(
                                        groups,
                                        bits,
                                        slot,
                                        list_slots,
                                        index,
                                        word,
                                        uint32(edge.size),
                                        shift,
                                        then,
                                        e,
                                    )
                                pending = rest
                                warp.together()
                                label = relax(labels, control, head, reached)
                                push(queue, lists, room, control, counter, until, spare, side, head, label)
                            if last and not pending:
                                break
                        begin, free = until, spare
                    cuda.syncthreads()
                cuda.syncthreads()
                q = control[QUERY]
                write(
                    labels,
                    kept,
                    control,
                    leave[q],
                    size,
                    place,
                    place_vertex,
                    target,
                    target_vertex,
                    q,
                    row[q],
                    cutoffs,
                    weights,
                    out,
                    sums,
                )
                cuda.syncthreads()
                q = uint32(q + uint32(1))
                begun = True

    return kernel
