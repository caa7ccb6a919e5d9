// A WebSocket that comes back: with growing pauses, and a share of chance in them, so that many studios do not
// come back to a node at the same moment.

export type Link =
  | { state: "off" }
  | { state: "connecting" }
  | { state: "connected" }
  /** Nothing was heard since then; the next try comes at `next_try_ms`. */
  | { state: "lost"; since_ms: number; next_try_ms: number };

export interface Wire {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  close(): void;
}

/** What the socket needs from outside; tests hand in their own. */
export interface World {
  open(url: string, protocols: string[]): Wire;
  now(): number;
  after(ms: number, act: () => void): () => void;
  chance(): number;
}

export interface SocketRule {
  /** Asked anew for each try, as the address may say where to go on. */
  target(): { url: string; protocols: string[] };
  heard(text: string): void;
  changed(link: Link): void;
  /** A try failed before it was connected. */
  failed?(): void;
}

const PAUSE_MS_MIN = 500;
const PAUSE_MS_MAX = 15_000;
/** A connection that lasted this long was a good one, and the next pause is short again. */
const GOOD_MS = 5_000;

export function pauseAfter(tries: number, chance: number): number {
  const most = Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** tries);
  return Math.round(most / 2 + (most / 2) * chance);
}

const browser: World = {
  open: (url, protocols) => new WebSocket(url, protocols) as unknown as Wire,
  now: () => Date.now(),
  after: (ms, act) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
  chance: () => Math.random(),
};

export class Socket {
  #wire: Wire | null = null;
  #cancel: (() => void) | null = null;
  #tries = 0;
  #lost_at: number | null = null;
  #opened_at: number | null = null;
  #runs = false;

  constructor(
    readonly rule: SocketRule,
    readonly world: World = browser,
  ) {}

  begin(): void {
    if (this.#runs) return;
    this.#runs = true;
    this.#tries = 0;
    this.#lost_at = null;
    this.#try();
  }

  end(): void {
    this.#runs = false;
    this.#drop();
    this.rule.changed({ state: "off" });
  }

  /** Tries at once, for example because the network is back. */
  nudge(): void {
    if (!this.#runs || this.#opened_at !== null) return;
    this.#drop();
    this.#try();
  }

  #drop(): void {
    this.#cancel?.();
    this.#cancel = null;
    const wire = this.#wire;
    this.#wire = null;
    this.#opened_at = null;
    if (!wire) return;
    wire.onopen = wire.onmessage = wire.onclose = null;
    wire.close();
  }

  #try(): void {
    const { url, protocols } = this.rule.target();
    if (this.#lost_at === null) this.rule.changed({ state: "connecting" });
    const wire = this.world.open(url, protocols);
    this.#wire = wire;
    wire.onopen = () => {
      this.#opened_at = this.world.now();
      this.#lost_at = null;
      this.rule.changed({ state: "connected" });
    };
    wire.onmessage = ({ data }) => {
      if (typeof data === "string") this.rule.heard(data);
    };
    wire.onclose = () => this.#closed();
  }

  #closed(): void {
    const now = this.world.now();
    const opened_at = this.#opened_at;
    this.#wire = null;
    this.#opened_at = null;
    if (!this.#runs) return;
    if (opened_at === null) this.rule.failed?.();
    else if (now - opened_at >= GOOD_MS) this.#tries = 0;
    // What failed may have ended the session.
    if (!this.#runs) return;
    this.#lost_at ??= now;
    const pause = pauseAfter(this.#tries++, this.world.chance());
    this.rule.changed({ state: "lost", since_ms: this.#lost_at, next_try_ms: now + pause });
    this.#cancel = this.world.after(pause, () => this.#try());
  }
}

/** The address of a WebSocket of the node that served the page. */
export function socketUrl(path: string): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
}
