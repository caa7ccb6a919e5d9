// Bodies of messages as people read them. They are pieces of text, never markup: what a stranger sent must stay harmless.

export interface Piece {
  text: string;
  kind: "plain" | "name" | "text" | "number" | "word";
}

const LETTERS_MAX = 200_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

/** The JSON laid out over lines; null if the text is none. */
export function pretty(text: string): string | null {
  const start = text.trimStart()[0];
  if (start === undefined || !"{[\"-0123456789tfn".includes(start)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** JSON in pieces of one kind each. */
export function pieces(json: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of json.matchAll(TOKEN)) {
    if (match.index > end) found.push({ text: json.slice(end, match.index), kind: "plain" });
    const [all, string, colon] = match;
    if (string !== undefined) {
      found.push({ text: string, kind: colon === undefined ? "text" : "name" });
      if (colon) found.push({ text: colon, kind: "plain" });
    } else found.push({ text: all, kind: match[3] === undefined ? "word" : "number" });
    end = match.index + all.length;
  }
  if (end < json.length) found.push({ text: json.slice(end), kind: "plain" });
  return found;
}

export function cut(text: string): { text: string; left_out: number } {
  return { text: text.slice(0, LETTERS_MAX), left_out: Math.max(0, text.length - LETTERS_MAX) };
}

/** Bytes as rows of sixteen, in hexadecimal and as letters. */
export function hex(base64: string, bytes_max = 4096): string {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).subarray(0, bytes_max);
  const rows: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(48);
    const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${digits} ${letters}`);
  }
  return rows.join("\n");
}
