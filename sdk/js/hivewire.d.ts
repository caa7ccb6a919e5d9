// Types for Hivewire workers in JavaScript, for your editor. `src/worker.js` exports `receive`, or
// `handle`, and whichever of the others it needs:
//
//     /** @type {import("./hivewire").Receive} */
//     export function receive(message, context) { … }
//
// If a function throws, everything that it did through the context is undone. Functions must not be
// async: a worker never waits. There is no clock, network or file: use the context. What is written
// to the console goes to the worker's log.

/** Text goes out as UTF-8. */
export type Bytes = string | Uint8Array;

export type Outgoing = Bytes | { body: Bytes; headers?: Record<string, string | number> };

/** A message in a worker's hands. */
export interface Message {
  readonly body: Uint8Array;
  readonly headers: Record<string, string>;
  /** What it is about: an ordinary message, the answer to an ask, that none came in time, a timer
   * that went off, or a child that has ended (the body says why). */
  readonly kind: "message" | "reply" | "timed-out" | "timer" | "child-ended";
  /** Of a reply or what timed out: names the ask. */
  readonly ticket?: bigint;
  /** Of the timer or the child. */
  readonly name?: string;
  /** Whether somebody waits for an answer. */
  readonly expectsReply: boolean;
  /** How often it was tried before without success. */
  readonly tries: number;
  /** The body as text; throws if it is none. */
  text(): string;
  /** The body as JSON. */
  json(): any;
}

/** Keys and values that survive restart, replacement and move. In a keyed stage they belong to the
 * bucket of the messages in hand, otherwise to the worker. */
export interface State {
  get(key: Bytes): Uint8Array | undefined;
  getText(key: Bytes): string | undefined;
  getJson(key: Bytes): any;
  set(key: Bytes, value: Bytes): void;
  setJson(key: Bytes, value: any): void;
  remove(key: Bytes): void;
  /** Keys that begin with `prefix` and their values, in order, from the first after `after`. */
  scan(prefix: Bytes, pairsMax: number, after?: Bytes): [Uint8Array, Uint8Array][];
}

/** What a worker can do during a turn. Nothing leaves before the turn is committed. */
export interface Context {
  readonly state: State;
  /** Sends to whatever this output of the stage is connected with. */
  emit(output: string, message: Outgoing): void;
  /** Sends to `flow/stage`, `flow/stage/3`, `queue:NAME` or `topic:NAME`. Outside the worker's own
   * flow it needs a grant. */
  send(address: string, message: Outgoing): void;
  /** Answers a message of this turn. */
  reply(to: Message, message: Outgoing): void;
  /** The address for an answer, for later or for a third worker. Whoever answers there copies the
   * header `correlation-id` of the message. */
  replyAddress(to: Message): string | undefined;
  /** Asks. The answer, or that none came in time, is a later message with this ticket. */
  ask(address: string, message: Outgoing, timeoutMs: number): bigint;
  /** Sets a timer, or sets it anew. It goes off once. */
  setTimer(name: string, afterMs: number, body?: Bytes): void;
  cancelTimer(name: string): void;
  /** Starts a child that runs the same code; its address is `${address()}/${name}`. */
  spawn(name: string, args?: Bytes): void;
  stopChild(name: string): void;
  /** Ends this worker after the turn. */
  end(): void;
  /** Writes a line to the worker's log. */
  log(level: "debug" | "info" | "warn" | "error", line: string): void;
  /** Milliseconds since 1970. */
  now(): number;
  /** A random number of 64 bits. */
  random(): bigint;
  /** The address of this worker. */
  address(): string;
}

/** Called once, before anything else, with the arguments of the deployment. */
export type Init = (args: Uint8Array, context: Context) => void;
/** Handles one message. */
export type Receive = (message: Message, context: Context) => void;
/** Handles several messages at once, in place of `receive`. */
export type Handle = (messages: Message[], context: Context) => void;
/** Everything that the module keeps in its variables. What is in the state does not belong here. */
export type Save = () => Bytes;
/** Takes over what was saved by this or the former version. */
export type Load = (snapshot: Uint8Array) => void;
/** Called before the worker is stopped for good. */
export type Stop = (context: Context) => void;
