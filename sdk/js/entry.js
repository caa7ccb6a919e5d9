// What the build puts around an author's `src/worker.js`: it exports the world of a worker and hands
// the author's functions messages and a context.

import * as author from "../../src/worker.js";
import * as life from "hivewire:worker/life@1.0.0";
import * as messages from "hivewire:worker/messages@1.0.0";
import * as stateOfHost from "hivewire:worker/state@1.0.0";
import * as surroundings from "hivewire:worker/surroundings@1.0.0";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Text becomes UTF-8, bytes stay as they are. */
function bytes(value) {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string") return encoder.encode(value);
  throw new TypeError("bytes are a string or a Uint8Array; for other values use JSON.stringify");
}

/** Text, bytes, or `{ body, headers }`. */
function outgoing(message) {
  if (typeof message === "string" || message instanceof Uint8Array) {
    return { body: bytes(message), headers: [] };
  }
  const pairs = Object.entries(message.headers ?? {});
  return { body: bytes(message.body), headers: pairs.map(([name, value]) => [name, String(value)]) };
}

/** Calls the host. What it refuses becomes an ordinary error. */
function host(call) {
  try {
    return call();
  } catch (error) {
    throw typeof error?.payload === "string" ? new Error(error.payload) : error;
  }
}

/** What is written to the console goes to the worker's log. */
function writeTo(level) {
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? String(value));
  return (...values) => surroundings.log(level, values.map(text).join(" "));
}

globalThis.console = {
  debug: writeTo("debug"),
  log: writeTo("info"),
  info: writeTo("info"),
  warn: writeTo("warn"),
  error: writeTo("error"),
};

let turn = 0;

class Message {
  #turn = turn;
  #index;

  constructor(raw, index) {
    this.#index = index;
    this.body = raw.body;
    this.headers = Object.fromEntries(raw.headers.toReversed());
    this.kind = raw.kind.tag;
    this.ticket = typeof raw.kind.val === "bigint" ? raw.kind.val : undefined;
    this.name = typeof raw.kind.val === "string" ? raw.kind.val : undefined;
    this.expectsReply = raw.expectsReply;
    this.tries = raw.tries;
  }

  text() {
    return decoder.decode(this.body);
  }

  json() {
    return JSON.parse(this.text());
  }

  static index(message) {
    return message.#turn === turn ? message.#index : undefined;
  }
}

const state = {
  get: (key) => stateOfHost.get(bytes(key)),
  getText(key) {
    const value = state.get(key);
    return value === undefined ? undefined : decoder.decode(value);
  },
  getJson(key) {
    const text = state.getText(key);
    return text === undefined ? undefined : JSON.parse(text);
  },
  set: (key, value) => stateOfHost.set(bytes(key), bytes(value)),
  setJson: (key, value) => state.set(key, JSON.stringify(value)),
  remove: (key) => stateOfHost.remove(bytes(key)),
  scan: (prefix, pairsMax, after) =>
    stateOfHost.scan(bytes(prefix), after === undefined ? undefined : bytes(after), pairsMax),
};

const context = {
  state,
  emit: (output, message) => messages.emit(output, outgoing(message)),
  send: (address, message) => host(() => messages.send(address, outgoing(message))),
  reply(to, message) {
    const index = Message.index(to);
    if (index === undefined) {
      throw new Error("only a message of this turn can be answered so: keep its reply address");
    }
    host(() => messages.reply(index, outgoing(message)));
  },
  replyAddress(to) {
    const index = Message.index(to);
    return index === undefined ? undefined : messages.replyAddress(index);
  },
  ask: (address, message, timeoutMs) =>
    host(() => messages.ask(address, outgoing(message), timeoutMs)),
  setTimer: (name, afterMs, body = "") => life.setTimer(name, BigInt(afterMs), bytes(body)),
  cancelTimer: (name) => life.cancelTimer(name),
  spawn: (name, args = "") => host(() => life.spawn(name, bytes(args))),
  stopChild: (name) => life.stopChild(name),
  end: () => life.end(),
  log: (level, line) => surroundings.log(level, String(line)),
  now: () => Number(surroundings.now() / 1000n),
  random: () => surroundings.random(),
  address: () => surroundings.address(),
};

/** An error with its places in the author's code. */
function reason(error) {
  if (!(error instanceof Error)) return String(error);
  const places = (error.stack ?? "").split("\n").filter((line) => line.includes("@src/"));
  return [`${error.name}: ${error.message}`, ...places].join("\n");
}

/** Runs the author's code. What it throws is told to the host as a text. */
function told(run) {
  turn += 1;
  try {
    const result = run();
    if (typeof result?.then === "function") {
      throw new Error("a worker cannot wait: its functions must not be async");
    }
    return result;
  } catch (error) {
    throw reason(error);
  }
}

export function init(args) {
  told(() => author.init?.(args, context));
}

export function handle(list) {
  told(() => {
    const wrapped = list.map((raw, index) => new Message(raw, index));
    if (author.handle) return author.handle(wrapped, context);
    for (const message of wrapped) {
      const result = author.receive(message, context);
      if (result !== undefined) return result;
    }
  });
}

export function save() {
  return told(() => bytes(author.save?.() ?? ""));
}

export function load(snapshot) {
  told(() => author.load?.(snapshot));
}

export function stop() {
  told(() => author.stop?.(context));
}
