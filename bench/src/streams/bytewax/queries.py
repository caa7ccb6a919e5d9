"""Nexmark's queries as dataflows of Bytewax.

queries.py QUERY FILE WORKERS reads events from a file into memory, runs a query over them with so many
workers, and prints how many seconds passed between the first event and the last result, and the checksum of
the results. Reading and summing up are not part of that time.
"""

import sys
import time

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main, run_main

PERSON, AUCTION, BID = 0, 1, 2
BATCH_EVENTS = 1000
MASK = (1 << 64) - 1

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


QUERIES = {"q0": q0, "q1": q1, "q2": q2}


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [parse(line.rstrip("\n").split("\t")) for line in lines]


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
    flow = Dataflow("nexmark")
    events = op.input("events", flow, Events(read(path)))
    op.output("results", QUERIES[query](events), Results())
    if workers == 1:
        run_main(flow)
    else:
        cluster_main(flow, [], 0, worker_count_per_proc=workers)
    print(ended - began, sum(map(mix, results)) & MASK)


main()
