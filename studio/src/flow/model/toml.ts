// TOML as flow documents need it, read and written. Dates stay texts: documents have none.

export class TomlError extends Error {
  constructor(message: string, readonly line: number) {
    super(`line ${line}: ${message}`);
  }
}

type Table = Record<string, unknown>;
const BARE = /^[A-Za-z0-9_-]+$/;
const DEPTH_MAX = 60;

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  fail(message: string): never {
    throw new TomlError(message, this.text.slice(0, this.at).split("\n").length);
  }

  get next(): string {
    return this.text[this.at] ?? "";
  }

  /** Spaces and, with `lines`, also line ends and comments. */
  skip(lines: boolean): void {
    for (;;) {
      const letter = this.next;
      if (letter === " " || letter === "\t" || letter === "\r" || (lines && letter === "\n")) this.at++;
      else if (letter === "#" && lines) this.toLineEnd();
      else return;
    }
  }

  toLineEnd(): void {
    while (this.next !== "" && this.next !== "\n") this.at++;
  }

  endOfLine(): void {
    this.skip(false);
    if (this.next === "#") this.toLineEnd();
    if (this.next !== "" && this.next !== "\n") this.fail(`nothing more may stand in this line, but there is ${JSON.stringify(this.next)}`);
  }

  take(text: string): boolean {
    if (!this.text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  expect(text: string): void {
    if (!this.take(text)) this.fail(`there must be ${text} here`);
  }

  key(): string[] {
    const parts: string[] = [];
    do {
      this.skip(false);
      if (this.next === '"' || this.next === "'") parts.push(this.string());
      else {
        const from = this.at;
        while (/[A-Za-z0-9_-]/.test(this.next)) this.at++;
        if (from === this.at) this.fail("there must be a name here");
        parts.push(this.text.slice(from, this.at));
      }
      this.skip(false);
    } while (this.take("."));
    return parts;
  }

  string(): string {
    const quote = this.next;
    const long = this.take(quote.repeat(3));
    if (!long) this.at++;
    const end = long ? quote.repeat(3) : quote;
    if (long) this.take("\r\n") || this.take("\n");
    let made = "";
    while (!this.text.startsWith(end, this.at)) {
      const letter = this.next;
      if (letter === "" || (letter === "\n" && !long)) this.fail("this text does not end: a quote is missing");
      if (letter === "\\" && quote === '"') made += this.escape(long);
      else {
        made += letter;
        this.at++;
      }
    }
    this.at += end.length;
    // Up to two quotes may stand before those that end a long text.
    while (long && this.next === quote) {
      made += quote;
      this.at++;
    }
    return made;
  }

  escape(long: boolean): string {
    const letter = this.text[this.at + 1] ?? "";
    this.at += 2;
    const plain = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", e: "\u001b", '"': '"', "\\": "\\" }[letter];
    if (plain !== undefined) return plain;
    const digits = { x: 2, u: 4, U: 8 }[letter];
    if (digits) {
      const code = this.text.slice(this.at, this.at + digits);
      this.at += digits;
      const point = /^[0-9a-fA-F]+$/.test(code) ? parseInt(code, 16) : Infinity;
      if (point > 0x10ffff) this.fail(`\\${letter}${code} is no letter`);
      return String.fromCodePoint(point);
    }
    if (long && /\s/.test(letter)) {
      while (/\s/.test(this.next)) this.at++;
      return "";
    }
    return this.fail(`\\${letter} stands for nothing`);
  }

  value(depth = 0): unknown {
    if (depth > DEPTH_MAX) this.fail("this is nested too deeply");
    const letter = this.next;
    if (letter === '"' || letter === "'") return this.string();
    if (letter === "[") return this.list(depth);
    if (letter === "{") return this.inline(depth);
    const from = this.at;
    while (/[A-Za-z0-9_+.:-]/.test(this.next)) this.at++;
    const word = this.text.slice(from, this.at);
    if (word === "true" || word === "false") return word === "true";
    const plain = word.replaceAll("_", "");
    if (/^[+-]?(\d+(\.\d+)?([eE][+-]?\d+)?|0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+)$/.test(plain)) return Number(plain);
    if (/^\d{4}-\d{2}-\d{2}|^\d{2}:\d{2}/.test(word)) return word;
    this.at = from;
    return this.fail(word ? `${word} is no value: texts need quotes` : "a value is missing here");
  }

  list(depth: number): unknown[] {
    this.expect("[");
    const made: unknown[] = [];
    for (;;) {
      this.skip(true);
      if (this.take("]")) return made;
      made.push(this.value(depth + 1));
      this.skip(true);
      if (this.take(",")) continue;
      this.expect("]");
      return made;
    }
  }

  inline(depth: number): Table {
    this.expect("{");
    const made: Table = {};
    for (;;) {
      this.skip(true);
      if (this.take("}")) return made;
      const key = this.key();
      this.expect("=");
      this.skip(false);
      put(this, made, key, this.value(depth + 1));
      this.skip(true);
      if (this.take(",")) continue;
      this.expect("}");
      return made;
    }
  }
}

function isTable(value: unknown): value is Table {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function own(table: Table, name: string): unknown {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function set(table: Table, name: string, value: unknown): void {
  // `__proto__` is a name like others.
  Object.defineProperty(table, name, { value, enumerable: true, configurable: true, writable: true });
}

function descend(reader: Reader, table: Table, parts: readonly string[]): Table {
  let at = table;
  for (const part of parts) {
    let next = own(at, part);
    if (Array.isArray(next)) next = next.at(-1);
    if (next === undefined) set(at, part, (next = {}));
    if (!isTable(next)) reader.fail(`${part} is no table`);
    at = next as Table;
  }
  return at;
}

function put(reader: Reader, table: Table, key: readonly string[], value: unknown): void {
  const at = descend(reader, table, key.slice(0, -1));
  const last = key.at(-1) ?? "";
  if (own(at, last) !== undefined) reader.fail(`${key.join(".")} is there twice`);
  set(at, last, value);
}

export function parseToml(text: string): Table {
  const reader = new Reader(text.replace(/^\uFEFF/, ""));
  const root: Table = {};
  const headers = new Set<string>();
  let current = root;
  for (;;) {
    reader.skip(true);
    if (reader.next === "") return root;
    if (reader.take("[[")) {
      const key = reader.key();
      reader.expect("]]");
      const at = descend(reader, root, key.slice(0, -1));
      const last = key.at(-1) ?? "";
      const list = own(at, last) ?? [];
      if (!Array.isArray(list)) reader.fail(`${key.join(".")} is no list`);
      current = {};
      set(at, last, [...(list as unknown[]), current]);
    } else if (reader.take("[")) {
      const key = reader.key();
      reader.expect("]");
      const name = JSON.stringify(key);
      if (headers.has(name)) reader.fail(`the table ${key.join(".")} is there twice`);
      headers.add(name);
      current = descend(reader, root, key);
    } else {
      const key = reader.key();
      reader.expect("=");
      reader.skip(false);
      put(reader, current, key, reader.value());
    }
    reader.endOfLine();
  }
}

function keyText(name: string): string {
  return BARE.test(name) ? name : JSON.stringify(name);
}

function stringText(text: string): string {
  // JSON escapes are those of TOML but for DEL, which TOML wants escaped.
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

export function tomlValue(value: unknown): string {
  if (typeof value === "string") return stringText(value);
  if (typeof value === "number") return Number.isFinite(value) ? (Object.is(value, -0) ? "-0.0" : String(value)) : "0";
  if (typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return `[${value.filter((one) => one !== null && one !== undefined).map(tomlValue).join(", ")}]`;
  if (isTable(value)) {
    const parts = Object.entries(value).filter(([, part]) => part !== null && part !== undefined).map(([name, part]) => `${keyText(name)} = ${tomlValue(part)}`);
    return parts.length > 0 ? `{ ${parts.join(", ")} }` : "{}";
  }
  return '""';
}

const ORDER = ["plugin", "description", "key", "router", "workers", "scale", "delivery", "on", "grants", "parameters", "to", "outputs", "supervision", "limits", "hand_over", "position"];

const ROUTE_ORDER = ["route", "stage", "reply", "timeout", "headers"];

/** What is set of a table, a line each, in this order; what is not in it comes last. */
function fieldLines(fields: Table, order: readonly string[]): string[] {
  const rank = (field: string) => (order.indexOf(field) + 1 || order.length + 1);
  const set = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  return set.sort(([a], [b]) => rank(a) - rank(b)).map(([field, value]) => `${keyText(field)} = ${tomlValue(value)}`);
}

/** A document as people write it: a table for each stage, everything in it on a line of its own. */
export function tomlOf(document: { flow: string; description?: string; delivery?: string; stages?: Record<string, unknown>; http?: readonly unknown[] }): string {
  const lines = [`flow = ${tomlValue(document.flow)}`];
  if (document.description) lines.push(`description = ${tomlValue(document.description)}`);
  if (document.delivery) lines.push(`delivery = ${tomlValue(document.delivery)}`);
  for (const [name, stage] of Object.entries(document.stages ?? {})) {
    lines.push("", `[stages.${keyText(name)}]`);
    const fields = { ...(stage as Table) };
    const outputs = fields["outputs"];
    if (isTable(outputs) && own(outputs, "out") !== undefined && fields["to"] === undefined) {
      const { out, ...others } = outputs;
      fields["to"] = out;
      fields["outputs"] = Object.keys(others).length > 0 ? others : undefined;
    }
    lines.push(...fieldLines(fields, ORDER));
  }
  for (const route of document.http ?? []) lines.push("", "[[http]]", ...fieldLines(route as Table, ROUTE_ORDER));
  return `${lines.join("\n")}\n`;
}

/** Reads a document in either form. */
export function parseText(text: string): Table {
  if (text.trimStart().startsWith("{")) {
    try {
      const read: unknown = JSON.parse(text);
      if (isTable(read)) return read;
    } catch (thrown) {
      throw new Error(thrown instanceof Error ? thrown.message : String(thrown));
    }
  }
  return parseToml(text);
}
