"""The many-query kernel: a block of threads answers one query after another, each whole, on the device.

Label-correcting search in time order over edge profiles, as on the CPU, with a block's threads over the frontier's
edges: those of a warp's vertices are dealt out evenly over its lanes. Vertices wait in two sets: `near` for labels
in the open time bucket, `far` for later ones. Near ones are queued for the next round of the block.

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
    LEFT,
    LIMIT,
    NOBODY,
    OPEN,
    QUERY,
    SETTLED,
    WORK,
    Shape,
)
from .device_labels import NEVER
from .warp import WIDTH

REGISTERS = 40  # of a thread: as many as 1,536 threads of a multiprocessor can have
SHARE = 8  # vertices of a round that a warp takes at least


def make(shape: Shape):
    """The kernel of a shape, compiled when it is called.

    Of its arguments, those of a store are those of `pipeline.gpu.host_arrays`, those of queries of `query_arrays`;
    `groups`, `bits` and `slots` those of `sectors`; `width` the seconds of a bucket; `per_warp` 65,535 over the
    warps of a block (to divide costs 40 instructions a round); `scratch` what `block.scratch_words` says for each
    block; `out` and `sums` the answers. Blocks are as many as one likes, threads of a block a multiple of 32.
    """
    lookup, _, _ = sectors.make(shape.wide)
    narrow, walking, queue = shape.narrow, shape.walking, block.QUEUE
    second_of, may_lower, relax, push, put, next_counter, refill, advance, clear, next_epoch = frontier.make(narrow)
    least_share = uint32(min(WIDTH, SHARE))
    write = device_answers.make(shape.answer, second_of)

    @cuda.jit(**({} if warp.SIMULATED else {"max_registers": REGISTERS}))
    def kernel(
        vertices,
        vertex_edge,
        edge,
        groups,
        bits,
        slots,
        slot,
        list_slots,
        index,
        word,
        shift,
        foot_offset,
        foot,
        place_offset,
        place_vertex,
        width,
        per_warp,
        chain,
        row,
        leave,
        limits,
        source_offset,
        source,
        target_offset,
        target,
        cutoffs,
        weights,
        scratch,
        next_chain,
        out,
        sums,
    ):
        tid, size = uint32(cuda.threadIdx.x), uint32(cuda.blockDim.x)
        lane, this_warp = int32(tid % uint32(WIDTH)), uint32(tid // uint32(WIDTH))
        warps = uint32(size // uint32(WIDTH))
        words = uint32((vertices + uint32(31)) >> uint32(5))
        shared = cuda.shared.array(0, uint32)
        control = shared[:CONTROL]
        queues = shared[CONTROL : CONTROL + 2 * queue]
        if narrow:
            label_words = uint32((vertices + uint32(1)) >> uint32(1))
            labels = shared[CONTROL + 2 * queue :]
            sets = labels[label_words:]
            gathered = sets[words + words + this_warp * 4 * WIDTH :]
        else:
            label_words = vertices
            mine = int64(cuda.blockIdx.x) * (vertices + words + words)
            labels = scratch[mine : mine + vertices]
            sets = scratch[mine + vertices : mine + vertices + words + words]
            gathered = shared[CONTROL + 2 * queue + this_warp * 4 * WIDTH :]
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
                    clear(labels, sets, size, label_words, words)
                if tid == 0:
                    for k in range(3):
                        control[COUNT + k] = uint32(0)
                        control[LEFT + k] = uint32(NEVER)
                    if anew:
                        control[BASE] = uint32(leave[chain[control[WORK] + uint32(1)] - uint32(1)] if narrow else 0)
                        control[EPOCHS] = uint32(0)
                        control[BEYOND] = uint32(0)
                    control[LIMIT] = uint32(max(limits[q], leave[q]))
                    control[SETTLED] = uint32(0)
                    control[OPEN] = uint32(leave[q] - int32(control[BASE]) + width)
                    control[ADVANCED] = uint32(0)
                    control[QUERY] = q
                cuda.syncthreads()
                turn = uint32(0)
                s = uint32(source_offset[q] + tid)
                while s < source_offset[q + uint32(1)]:
                    if relax(labels, sets, words, control, source[s], leave[q]):
                        put(queues, control, uint32(COUNT), uint32(0), source[s])
                    s = uint32(s + size)
                cuda.syncthreads()
                while True:
                    # A round: `now` is what is read, `next` what is filled, and the third counter is reset.
                    now_counter = uint32(uint32(COUNT) + turn % uint32(3))
                    waiting = control[now_counter]
                    if tid == 0:
                        third = uint32(turn + uint32(2)) % uint32(3)
                        control[uint32(uint32(COUNT) + third)] = uint32(0)
                        control[uint32(uint32(LEFT) + third)] = uint32(NEVER)
                    if waiting == 0:
                        left, beyond = int32(control[uint32(now_counter + uint32(LEFT - COUNT))]), control[BEYOND]
                        open_until, settled_until = int32(control[OPEN]), int32(control[SETTLED])
                        advanced = control[ADVANCED] != uint32(0)
                        cuda.syncthreads()
                        if not advanced:
                            # The bucket is done: open the next.
                            settled_until = open_until
                            open_until = int32(min(int64(open_until) + width, NEVER))
                            advanced = True
                        elif left != NEVER:
                            # The next is empty: open that of the earliest label.
                            open_until = int32(min(int64(left) + width, NEVER))
                        elif narrow and beyond:
                            next_epoch(labels, scratch, sets, control, size, label_words, words, vertices)
                            settled_until, open_until = int32(0), int32(width)
                            advanced = False
                        else:
                            break
                        if tid == 0:
                            control[SETTLED], control[OPEN] = uint32(settled_until), uint32(open_until)
                            control[AIM] = uint32(NEVER)
                            control[ADVANCED] = uint32(1) if advanced else uint32(0)
                            if not advanced:
                                control[next_counter(turn)] = uint32(queue + 1)
                        cuda.syncthreads()
                        if advanced:
                            if int64(int32(control[BASE])) + settled_until > int32(control[LIMIT]):
                                break
                            if target_offset.size > 1:
                                q = control[QUERY]
                                s = uint32(target_offset[q] + tid)
                                while s < target_offset[q + uint32(1)]:
                                    cuda.atomic.min(
                                        control, AIM, uint32(second_of(labels, scratch, vertices, control, target[s]))
                                    )
                                    s = uint32(s + size)
                                cuda.syncthreads()
                                if int32(control[AIM]) < int32(control[BASE]) + settled_until:
                                    break
                            advance(labels, sets, queues, control, turn, size, words)
                    else:
                        if tid == 0:
                            control[ADVANCED] = uint32(0)
                        now_queue = uint32(queue) if turn & uint32(1) else uint32(0)
                        if waiting > uint32(queue):
                            cuda.syncthreads()
                            if tid == 0:
                                control[now_counter] = uint32(0)
                            cuda.syncthreads()
                            refill(sets, queues, control, now_counter, now_queue, size, words)
                            cuda.syncthreads()
                            waiting = control[now_counter]
                            if waiting > uint32(queue):
                                waiting = uint32(queue)
                                if tid == 0:
                                    cuda.atomic.add(control, next_counter(turn), uint32(queue + 1))
                        share = max(least_share, uint32(uint32(uint32(waiting * per_warp) >> uint32(16)) + uint32(1)))
                        share = min(share, uint32(WIDTH))
                        begin = uint32(this_warp * share)
                        while begin < waiting:
                            v = NOBODY
                            if uint32(lane) < share and uint32(begin + uint32(lane)) < waiting:
                                v = queues[uint32(now_queue + begin + uint32(lane))]
                                # Whoever lowers the label from here on will queue the vertex again.
                                cuda.atomic.and_(
                                    sets, uint32(v >> uint32(5)), uint32(~uint32(uint32(1) << uint32(v & uint32(31))))
                                )
                                cuda.threadfence_block()
                            begin = uint32(begin + warps * share)
                            now, at, degree = int32(0), int32(0), int32(0)
                            walk_at, walks = int32(0), int32(0)
                            if v != NOBODY:
                                now = second_of(labels, scratch, vertices, control, v)
                                if now <= int32(control[LIMIT]):
                                    if uint32(now) >> bits < slots:
                                        at = int32(vertex_edge[v])
                                        degree = int32(vertex_edge[v + uint32(1)] - uint32(at))
                                    if walking:
                                        walk_at = int32(foot_offset[v])
                                        walks = int32(foot_offset[v + uint32(1)] - uint32(walk_at))
                            until = warp.running_sum(degree, lane)
                            items = warp.pick(until, WIDTH - 1)
                            first = int32(at + degree - until)
                            done, pending = int32(0), int32(0)
                            while done < items or pending:
                                # Edges that may lower a label are gathered, until there is one for each lane.
                                if done < items:
                                    item = int32(done + lane)
                                    k = warp.owner(until, item)
                                    then = warp.pick(now, k)
                                    e = uint32(warp.pick(first, k) + item)
                                    promising = False
                                    if item < items:
                                        record = edge[e]
                                        soonest = int32(then + int32(record >> uint64(32)))
                                        promising = may_lower(labels, control, uint32(record), soonest)
                                    votes = warp.votes(promising)
                                    if promising:
                                        place = uint32(pending + warp.before(votes))
                                        gathered[place] = e
                                        gathered[place + uint32(2 * WIDTH)] = uint32(then)
                                    pending = int32(pending + int32(cuda.popc(votes)))
                                    done = int32(done + WIDTH)
                                    warp.together()
                                if pending >= WIDTH or done >= items:
                                    rest = int32(max(pending - WIDTH, 0))
                                    head, fresh = NOBODY, False
                                    if rest + lane < pending:
                                        e = gathered[uint32(rest + lane)]
                                        then = int32(gathered[uint32(rest + lane + 2 * WIDTH)])
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
                                        if reached >= 0:
                                            head = uint32(edge[e])
                                            fresh = relax(labels, sets, words, control, head, reached)
                                    pending = rest
                                    warp.together()
                                    push(queues, control, turn, warp.votes(fresh), fresh, head)
                            if walking:
                                until = warp.running_sum(walks, lane)
                                items = warp.pick(until, WIDTH - 1)
                                first = int32(walk_at + walks - until)
                                done = int32(0)
                                while done < items:
                                    item = int32(done + lane)
                                    k = warp.owner(until, item)
                                    then = warp.pick(now, k)
                                    f = uint32(warp.pick(first, k) + item)
                                    head, fresh = NOBODY, False
                                    if item < items:
                                        record = foot[f]
                                        head = uint32(record)
                                        reached = int32(then + int32(record >> uint64(32)))
                                        if may_lower(labels, control, head, reached):
                                            fresh = relax(labels, sets, words, control, head, reached)
                                    push(queues, control, turn, warp.votes(fresh), fresh, head)
                                    done = int32(done + WIDTH)
                    cuda.syncthreads()
                    turn = uint32(turn + uint32(1)) if turn < uint32(5) else uint32(0)
                cuda.syncthreads()
                q = control[QUERY]
                write(
                    labels,
                    scratch,
                    vertices,
                    control,
                    leave[q],
                    size,
                    place_offset,
                    place_vertex,
                    target_offset,
                    target,
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
