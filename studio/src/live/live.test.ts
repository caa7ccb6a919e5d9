import { describe, expect, it } from "vitest";
import { join, merge, readEdge, readFrame, type LiveFrame } from "./frames";
import { History, Ring } from "./history";
import { pauseAfter, Socket, type Link, type Wire, type World } from "./socket";

const queue = (waiting: number) => ({ waiting, in_rate: 0, out_rate: 0, oldest_ms: null });
const frame = (complete: boolean, queues: LiveFrame["queues"]): LiveFrame => ({ at_ms: 1, complete, stages: {}, edges: {}, queues });

describe("frames", () => {
  it("are read, and what is none is left out", () => {
    expect(readFrame('{"kind":"live","at_ms":5,"complete":true,"queues":{"a":null}}')).toEqual({
      at_ms: 5, complete: true, stages: {}, edges: {}, queues: { a: null },
    });
    expect([readFrame("{"), readFrame("null"), readFrame('{"kind":"other"}')]).toEqual([null, null, null]);
  });

  it("change what is shown: new, other and gone", () => {
    const shown = new Map([["a", queue(1)], ["b", queue(2)]]);
    merge(shown, { a: queue(9), b: null, c: queue(3) }, false);
    expect([...shown]).toEqual([["a", queue(9)], ["c", queue(3)]]);
    merge(shown, { c: queue(4) }, true);
    expect([...shown]).toEqual([["c", queue(4)]]);
  });

  it("say the same joined as one by one", () => {
    const frames = [frame(true, { a: queue(1), b: queue(2) }), frame(false, { a: null }), frame(false, { a: queue(7), b: null }), frame(true, { z: queue(1) }), frame(false, { y: queue(2) })];
    const single = new Map(), joined = new Map();
    let waiting: LiveFrame | null = null;
    for (const each of frames) {
      merge(single, each.queues, each.complete);
      waiting = join(waiting, each);
    }
    if (waiting) merge(joined, waiting.queues, waiting.complete);
    expect(joined).toEqual(single);
  });

  it("name edges", () => {
    expect(readEdge("shop/orders.out>queue:a.b")).toEqual({ stage: "shop/orders", output: "out", target: "queue:a.b" });
    expect(readEdge("nonsense")).toBeNull();
  });
});

describe("histories", () => {
  it("keep the last points", () => {
    const ring = new Ring(3);
    for (const value of [1, 2, 3, 4, 5]) ring.push(value);
    expect(ring.toArray()).toEqual([3, 4, 5]);
  });

  it("have gaps where nothing was known", () => {
    const history = new History(3);
    history.push(1, { a: 1 });
    history.push(2, {});
    history.push(3, { a: 3, b: 30 });
    history.push(4, { a: 4, b: 40 });
    expect([history.times, history.series("a"), history.series("b"), history.series("c")]).toEqual([[2, 3, 4], [NaN, 3, 4], [NaN, 30, 40], []]);
  });
});

/** A world whose clock and sockets the test moves. */
function world() {
  const wires: (Wire & { closed: boolean })[] = [];
  const timers: { ms: number; act: () => void }[] = [];
  const made: World & { wires: typeof wires; timers: typeof timers; time: number } = {
    wires, timers, time: 0,
    open: () => {
      const wire = { onopen: null, onmessage: null, onclose: null, closed: false, close() { this.closed = true; } } as Wire & { closed: boolean };
      wires.push(wire);
      return wire;
    },
    now: () => made.time,
    after: (ms, act) => {
      const timer = { ms, act };
      timers.push(timer);
      return () => timers.splice(timers.indexOf(timer), 1);
    },
    chance: () => 1,
  };
  return made;
}

describe("the socket", () => {
  it("comes back with growing pauses, and says since when it is lost", () => {
    const here = world();
    const links: Link[] = [];
    let failed = 0;
    const socket = new Socket({ target: () => ({ url: "", protocols: [] }), heard: () => {}, changed: (link) => links.push(link), failed: () => failed++ }, here);
    socket.begin();
    here.wires[0]?.onopen?.(undefined as never);
    here.time = 1_000;
    here.wires[0]?.onclose?.({ code: 1006 });
    here.timers[0]?.act();
    here.time = 2_000;
    here.wires[1]?.onclose?.({ code: 1006 });
    expect(links).toEqual([
      { state: "connecting" },
      { state: "connected" },
      { state: "lost", since_ms: 1_000, next_try_ms: 1_500 },
      { state: "lost", since_ms: 1_000, next_try_ms: 3_000 },
    ]);
    expect(failed).toBe(1);
  });

  it("ends for good", () => {
    const here = world();
    const socket = new Socket({ target: () => ({ url: "", protocols: [] }), heard: () => {}, changed: () => {} }, here);
    socket.begin();
    socket.end();
    expect([here.wires.length, here.wires[0]?.closed, here.wires[0]?.onclose]).toEqual([1, true, null]);
    socket.nudge();
    expect(here.wires.length).toBe(1);
  });

  it("pauses between half a second and fifteen", () => {
    expect([pauseAfter(0, 0), pauseAfter(0, 1), pauseAfter(30, 1)]).toEqual([250, 500, 15_000]);
  });
});
