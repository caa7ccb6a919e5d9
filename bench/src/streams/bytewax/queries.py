"""Queries of Nexmark, and word count, as dataflows of Bytewax.

queries.py QUERY FILE WORKERS reads events or lines from a file into memory, runs a query over them with so many
workers, and prints how many seconds passed between the first event and the last result, and the checksum of
the results. Reading and summing up are not part of that time.
"""

import sys
import time
from datetime import datetime, timedelta, timezone
from operator import itemgetter

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main, run_main

PERSON, AUCTION, BID = 0, 1, 2
BATCH_EVENTS = 1000
MASK = (1 << 64) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)

began = None
ended = None
results = []


class Part(StatelessSourcePartition):
    """The events of one worker."""

    def __init__(self, events):
        self.events = events
        self.next = 0

    def next_batch(self):
        global began
        if began is None:
            began = time.perf_counter()
        if self.next >= len(self.events):
            raise StopIteration()
        batch = self.events[self.next : self.next + BATCH_EVENTS]
        self.next += BATCH_EVENTS
        return batch


class Events(DynamicSource):
    """Events in memory, divided among the workers."""

    def __init__(self, events):
        self.events = events

    def build(self, step_id, worker_index, worker_count):
        return Part(self.events[worker_index::worker_count])


class Keep(StatelessSinkPartition):
    """Keeps results for later."""

    def write_batch(self, items):
        results.extend(items)

    def close(self):
        global ended
        ended = time.perf_counter()


class Results(DynamicSink):
    """Keeps the results of all workers."""

    def build(self, step_id, worker_index, worker_count):
        return Keep()


def q0(events):
    return op.map("pass", events, lambda event: event)


def q1(events):
    def convert(event):
        if event[0] != BID:
            return None
        kind, time_ms, auction, bidder, price = event
        return (kind, time_ms, auction, bidder, price * 89 // 100)

    return op.filter_map("convert", events, convert)


def q2(events):
    bids = op.filter("few", events, lambda event: event[0] == BID and event[2] % 123 == 0)
    return op.map("select", bids, lambda bid: (bid[2], bid[4]))


def q3(events):
    states = {"OR", "ID", "CA"}

    def select(event):
        if event[0] == PERSON and event[5] in states:
            return (str(event[2]), event)
        if event[0] == AUCTION and event[4] == 3:
            return (str(event[3]), event)
        return None

    def join(known, event):
        """Either side may come first."""
        person, auctions = known or (None, [])
        if event[0] == PERSON:
            return ((event, []), [(event, auction) for auction in auctions])
        if person is None:
            auctions.append(event)
            return ((None, auctions), [])
        return (known, [(person, event)])

    joined = op.stateful_flat_map("join", op.filter_map("select", events, select), join)
    return op.map("suggest", joined, lambda pair: (*pair[1][0][3:], pair[1][1][2]))


def q4(events):
    def select(event):
        return (str(event[2]), event) if event[0] != PERSON else None

    def sell(known, event):
        """The highest bid until it expires; its events come in order."""
        if event[0] == AUCTION:
            return (event, 0)
        auction, highest = known
        if event[4] > highest and event[1] <= auction[6]:
            return (auction, event[4])
        return known

    def sold(pair):
        auction, highest = pair[1]
        return (str(auction[4]), (1, highest)) if highest else None

    def add(left, right):
        return (left[0] + right[0], left[1] + right[1])

    def average(pair):
        category, (auctions, total) = pair
        return (int(category), auctions, total, total // auctions)

    by_auction = op.filter_map("select", events, select)
    closed = op.fold_final("sell", by_auction, lambda: None, sell)
    by_category = op.filter_map("sold", closed, sold)
    return op.map("average", op.reduce_final("add", by_category, add), average)


def event_time():
    """Windows are closed by later events and at the end, not by the time of day."""
    return win.EventClock(
        ts_getter=itemgetter(1),
        wait_for_system_duration=10 * SECOND,
        to_system_utc=lambda _: None,
    )


def q5(events):
    windows = win.SlidingWindower(length=10 * SECOND, offset=2 * SECOND, align_to=EPOCH)
    bids = op.filter("bids", events, lambda event: event[0] == BID)
    counts = win.count_window("count", bids, event_time(), windows, lambda bid: str(bid[2]))
    by_window = op.map("window", counts.down, lambda pair: (str(pair[1][0]), [(pair[0], pair[1][1])]))

    def hottest(left, right):
        if left[0][1] == right[0][1]:
            return left + right
        return left if left[0][1] > right[0][1] else right

    def unpack(pair):
        window, hot = pair
        end_ms = int(window) * 2_000 + 10_000
        return [(end_ms, int(auction), bids) for auction, bids in hot]

    return op.flat_map("unpack", op.reduce_final("hottest", by_window, hottest), unpack)


def q7(events):
    windows = win.TumblingWindower(length=SECOND, align_to=EPOCH)
    bids = op.filter("bids", events, lambda event: event[0] == BID)
    keyed = op.key_on("all", bids, lambda _: "all")
    highest = win.max_window("highest", keyed, event_time(), windows, by=itemgetter(4, 2, 3))

    def offer(pair):
        _, (window, bid) = pair
        return (window * 1_000 + 1_000, bid[4], bid[2], bid[3])

    return op.map("offer", highest.down, offer)


def q8(events):
    windows = win.TumblingWindower(length=SECOND, align_to=EPOCH)
    persons = op.filter("persons", events, lambda event: event[0] == PERSON)
    auctions = op.filter("auctions", events, lambda event: event[0] == AUCTION)
    joined = win.join_window(
        "join",
        event_time(),
        windows,
        op.key_on("person", persons, lambda person: str(person[2])),
        op.key_on("seller", auctions, lambda auction: str(auction[3])),
        insert_mode="last",
        emit_mode="complete",
        ordered=False,
    )

    def newcomer(pair):
        _, (window, (person, _)) = pair
        return (person[2], person[3], window * 1_000 + 1_000)

    return op.map("newcomer", joined.down, newcomer)


def word_count(lines):
    words = op.flat_map("split", lines, str.split)
    return op.count_final("count", words, lambda word: word)


QUERIES = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "word_count": word_count,
}
# Those whose events have the time as Bytewax wants it.
WINDOWED = {"q5", "q7", "q8"}


def read(query, path):
    with open(path, encoding="utf-8") as lines:
        if query == "word_count":
            return [line.rstrip("\n") for line in lines]
        events = [parse(line.rstrip("\n").split("\t")) for line in lines]
    if query in WINDOWED:
        return [(kind, timed(time_ms), *rest) for kind, time_ms, *rest in events]
    return events


def timed(time_ms):
    return EPOCH + timedelta(milliseconds=time_ms)


def parse(words):
    if words[0] == "0":
        return (PERSON, int(words[1]), int(words[2]), *words[3:])
    return tuple(map(int, words))


def text(value):
    number = 7
    for byte in value.encode():
        number = (number * 31 + byte) & MASK
    return number


def mix(fields):
    """As `checksum.rs` does."""
    number = 0
    for field in fields:
        field = text(field) if isinstance(field, str) else field
        number = ((number ^ field) * 0x9E3779B97F4A7C15) & MASK
        number ^= number >> 32
    return number


def main():
    query, path, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    flow = Dataflow("queries")
    events = op.input("events", flow, Events(read(query, path)))
    op.output("results", QUERIES[query](events), Results())
    if workers == 1:
        run_main(flow)
    else:
        cluster_main(flow, [], 0, worker_count_per_proc=workers)
    print(ended - began, sum(map(mix, results)) & MASK)


main()
