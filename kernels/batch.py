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

from dataclasses import dataclass

from numba import cuda, int32, int64, uint32, uint64

from . import device_answers, device_labels, sectors, warp
from .device_labels import NEVER
from .warp import WIDTH, device

THREADS = 384  # of a block; four blocks of them, of 40 registers each, fill a multiprocessor
REGISTERS = 40
QUEUE = 704  # vertices of a round; what doesn't fit waits for the next
SHARE = 8  # vertices of a round that a warp takes at least
NOBODY = uint32(0xFFFFFFFF)
EPOCH = 0xFFFE  # seconds of an epoch
# Words of shared memory for what a block agrees on; registers are scarce. Of three counters (each of queued vertices
# and of the earliest label left) one is read in a round, one filled, one reset.
CONTROL = 16
WORK, COUNT, LEFT, BEYOND, AIM, BASE, EPOCHS, LIMIT, SETTLED, OPEN, ADVANCED, QUERY = (
    0,
    1,
    4,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
)


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for: labels of 16 bits, profile words of 64, footpaths, the kind of answer."""

    narrow: bool
    wide: bool
    walking: bool
    answer: str


def set_words(vertices: int) -> int:
    """Words of a set of vertices."""
    return (vertices + 31) // 32


def shared_bytes(narrow: bool, vertices: int, threads: int) -> int:
    """Shared memory that a block needs."""
    return 4 * (CONTROL + 2 * QUEUE + 4 * threads + ((vertices + 1) // 2 + 2 * set_words(vertices) if narrow else 0))


def scratch_words(narrow: bool, vertices: int) -> int:
    """Device memory that a block needs, in words of 4 bytes."""
    return vertices + (0 if narrow else 2 * set_words(vertices))


def make(shape: Shape):
    """The kernel of a shape, compiled when it is called; `pipeline.gpu` tells of its arguments."""
    lookup, _, _ = sectors.make(shape.wide)
    unknown, get, lower, load = device_labels.make(shape.narrow)
    narrow, walking = shape.narrow, shape.walking
    least_share = uint32(min(WIDTH, SHARE))

    @device
    def kept(vertices, v):
        """Where in device memory the label of an earlier epoch is."""
        return uint64(uint64(cuda.blockIdx.x) * uint64(vertices) + uint64(v))

    @device
    def second_of(labels, scratch, vertices, control, v):
        """A label as a second of the store's clock, or `NEVER`."""
        label = get(labels, v)
        if label == unknown:
            return int32(NEVER)
        if narrow and label == 0 and control[EPOCHS]:
            return int32(scratch[kept(vertices, v)])
        return int32(int32(control[BASE]) + label)

    write = device_answers.make(shape.answer, second_of)

    @device
    def may_lower(labels, control, v, second):
        """Whether an arrival at v at that second, or later, can be an improvement, or one beyond this epoch."""
        label = get(labels, v)
        return second <= int32(control[LIMIT]) and (
            max(int32(second - int32(control[BASE])), int32(0)) < label or label == unknown
        )

    @device
    def relax(labels, sets, words, control, v, reached):
        """A vertex is reached at a second: lower its label and put it into a set.

        Whether it must be queued: its bucket is open, and it was not in the near set.
        """
        if reached > int32(control[LIMIT]):
            return False
        label = int32(reached - int32(control[BASE]))
        if label >= unknown:
            control[BEYOND] = uint32(1)
            return False
        if not lower(labels, v, label):
            return False
        near = label < int32(control[OPEN])
        bit = uint32(uint32(1) << uint32(v & uint32(31)))
        w = uint32(uint32(v >> uint32(5)) + (uint32(0) if near else words))
        return uint32(cuda.atomic.or_(sets, w, bit) & bit) == uint32(0) and near

    @device
    def push(queues, control, turn, votes, fresh, v):
        """Queue for the next round the vertices of a warp's lanes that are `fresh`, as `votes` says.

        What finds no room stays in its set.
        """
        if votes:
            at = int32(0)
            if uint32(cuda.threadIdx.x % WIDTH) == uint32(0):
                at = int32(cuda.atomic.add(control, next_counter(turn), uint32(cuda.popc(votes))))
            at = uint32(warp.pick(at, 0) + warp.before(votes))
            if fresh and at < uint32(QUEUE):
                queues[uint32(next_queue(turn) + at)] = v

    @device
    def put(queues, control, counter, begin, v):
        """Queue one vertex, in code that the lanes of a warp don't run together."""
        at = uint32(cuda.atomic.add(control, counter, uint32(1)))
        if at < uint32(QUEUE):
            queues[uint32(begin + at)] = v

    @device
    def next_counter(turn):
        """Where a round counts what it queues; turns are 0 to 5, for three counters and two queues."""
        return uint32(uint32(COUNT) + uint32(turn + uint32(1)) % uint32(3))

    @device
    def next_queue(turn):
        return uint32(0) if turn & uint32(1) else uint32(QUEUE)

    @device
    def refill(sets, queues, control, counter, begin, size, words):
        """Queue the near set, after more was pushed than a queue takes."""
        w = uint32(cuda.threadIdx.x)
        while w < words:
            bits = load(sets, w)
            while bits:
                put(queues, control, counter, begin, uint32((w << uint32(5)) + uint32(cuda.ffs(bits) - 1)))
                bits = uint32(bits & uint32(bits - uint32(1)))
            w = uint32(w + size)

    @device
    def advance(labels, sets, queues, control, turn, size, words):
        """Queue the vertices of the far set whose bucket has opened; LEFT becomes the earliest label of the others."""
        settled_until, open_until = int32(control[SETTLED]), int32(control[OPEN])
        least = int32(NEVER)
        counter, begin = next_counter(turn), next_queue(turn)
        w = uint32(cuda.threadIdx.x)
        while w < words:
            left = load(sets, uint32(words + w))
            if left:
                stay, near = left, uint32(0)
                while left:
                    b = uint32(cuda.ffs(left) - 1)
                    left = uint32(left & uint32(left - uint32(1)))
                    v = uint32((w << uint32(5)) + b)
                    label = get(labels, v)
                    if label >= open_until:
                        least = min(least, label)
                    else:
                        one = uint32(uint32(1) << b)
                        stay = uint32(stay ^ one)
                        if label >= settled_until:  # else it was lowered, and relaxed, within the last bucket
                            near = uint32(near | one)
                            put(queues, control, counter, begin, v)
                sets[uint32(words + w)] = stay
                if near:
                    sets[w] = near
            w = uint32(w + size)
        if least != NEVER:
            cuda.atomic.min(control, uint32(counter + uint32(LEFT - COUNT)), uint32(least))

    @device
    def clear(labels, sets, size, label_words, words):
        """No label, nobody waits."""
        i = uint32(cuda.threadIdx.x)
        while i < label_words:
            labels[i] = NOBODY if narrow else uint32(NEVER)
            i = uint32(i + size)
        i = uint32(cuda.threadIdx.x)
        while i < uint32(words + words):
            sets[i] = uint32(0)
            i = uint32(i + size)

    @device
    def next_epoch(labels, scratch, sets, control, size, label_words, words, vertices):
        """Keep what is settled as seconds, and let all of it wait to be relaxed again from a later base."""
        base, epochs = int32(control[BASE]), control[EPOCHS]
        w = uint32(cuda.threadIdx.x)
        while w < words:
            found = uint32(0)
            for b in range(32):
                v = uint32((w << uint32(5)) + uint32(b))
                if v < vertices:
                    label = get(labels, v)
                    if label != unknown:
                        if label or not epochs:
                            scratch[kept(vertices, v)] = uint32(base + label)
                        found = uint32(found | uint32(uint32(1) << uint32(b)))
            sets[w] = found
            sets[uint32(words + w)] = uint32(0)
            w = uint32(w + size)
        cuda.syncthreads()
        i = uint32(cuda.threadIdx.x)
        while i < label_words:
            pair = labels[i]
            low = uint32(0xFFFF) if uint32(pair & uint32(0xFFFF)) == uint32(0xFFFF) else uint32(0)
            high = uint32(0xFFFF0000) if uint32(pair >> uint32(16)) == uint32(0xFFFF) else uint32(0)
            labels[i] = uint32(low | high)
            i = uint32(i + size)
        if cuda.threadIdx.x == 0:
            control[BASE] = uint32(base + EPOCH)
            control[EPOCHS] = uint32(epochs + uint32(1))
            control[BEYOND] = uint32(0)
            control[SETTLED] = uint32(0)

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
        queues = shared[CONTROL : CONTROL + 2 * QUEUE]
        if narrow:
            label_words = uint32((vertices + uint32(1)) >> uint32(1))
            labels = shared[CONTROL + 2 * QUEUE :]
            sets = labels[label_words:]
            gathered = sets[words + words + this_warp * 4 * WIDTH :]
        else:
            label_words = vertices
            mine = int64(cuda.blockIdx.x) * (vertices + words + words)
            labels = scratch[mine : mine + vertices]
            sets = scratch[mine + vertices : mine + vertices + words + words]
            gathered = shared[CONTROL + 2 * QUEUE + this_warp * 4 * WIDTH :]
        while True:
            cuda.syncthreads()
            if tid == 0:
                control[WORK] = uint32(cuda.atomic.add(next_chain, 0, uint32(1)))
            cuda.syncthreads()
            if int32(control[WORK]) >= int32(chain.size - 1):
                break
            q = chain[control[WORK]]
            first = True
            while q < chain[control[WORK] + uint32(1)]:
                # After more than one epoch the labels are of no use to the next query.
                anew = first or control[EPOCHS] != uint32(0)
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
                                control[next_counter(turn)] = uint32(QUEUE + 1)
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
                        now_queue = uint32(QUEUE) if turn & uint32(1) else uint32(0)
                        if waiting > uint32(QUEUE):
                            cuda.syncthreads()
                            if tid == 0:
                                control[now_counter] = uint32(0)
                            cuda.syncthreads()
                            refill(sets, queues, control, now_counter, now_queue, size, words)
                            cuda.syncthreads()
                            waiting = control[now_counter]
                            if waiting > uint32(QUEUE):
                                waiting = uint32(QUEUE)
                                if tid == 0:
                                    cuda.atomic.add(control, next_counter(turn), uint32(QUEUE + 1))
                        share = max(least_share, uint32(uint32(waiting + warps - uint32(1)) // warps))
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
                first = False

    return kernel
