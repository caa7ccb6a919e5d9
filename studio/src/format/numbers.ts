// Numbers as people read them. What is not known is a dash.

const DASH = "–";
const STEPS = ["", "k", "M", "G", "T"];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

type Maybe = number | null | undefined;

function unknown(value: Maybe): value is null | undefined {
  return value === null || value === undefined || Number.isNaN(value);
}

/** Three digits are enough: 0.25, 4.2, 42, 420. */
function digits(value: number): string {
  const size = Math.abs(value);
  const text = value.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function scaled(value: number, by: number, names: string[], joint: string): string {
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= by - by / 2000 && step < names.length - 1) {
    rest /= by;
    step++;
  }
  return `${digits(rest)}${joint}${names[step]}`.trim();
}

/** A count: 900, 1.2k, 3.4M. */
export function count(value: Maybe): string {
  return unknown(value) ? DASH : scaled(value, 1000, STEPS, "");
}

/** A count with all its digits: 1 234 567. */
export function exact(value: Maybe): string {
  return unknown(value) ? DASH : Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

/** How many a second: 1.2k/s. */
export function rate(value: Maybe): string {
  return unknown(value) ? DASH : `${count(value)}/s`;
}

export function bytes(value: Maybe): string {
  return unknown(value) ? DASH : scaled(value, 1024, BYTES, "\u202f");
}

/** A length of time, given in milliseconds: 0.4 ms, 12 ms, 3.4 s, 5 min, 2 h, 3 d. */
export function duration(ms: Maybe): string {
  if (unknown(ms)) return DASH;
  const size = Math.abs(ms);
  const [by, name] =
    size < 999.5 ? [1, "ms"] : size < 60_000 ? [1_000, "s"] : size < 3_600_000 ? [60_000, "min"]
      : size < 86_400_000 ? [3_600_000, "h"] : [86_400_000, "d"];
  return `${digits(ms / by)}\u202f${name}`;
}

export function percent(share: Maybe): string {
  return unknown(share) ? DASH : `${digits(share * 100)}\u202f%`;
}

/** `1 stage`, `2 stages`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${exact(value)} ${value === 1 ? one : many}`;
}

/** How long ago or until: `now`, `12 s ago`, `in 3 min`. */
export function relative(at_ms: number, now_ms: number): string {
  const apart = now_ms - at_ms;
  if (Math.abs(apart) < 2_000) return "now";
  const size = Math.abs(apart);
  const [by, name] =
    size < 60_000 ? [1_000, "s"] : size < 3_600_000 ? [60_000, "min"] : size < 86_400_000 ? [3_600_000, "h"] : [86_400_000, "d"];
  const text = `${Math.floor(size / by)}\u202f${name}`;
  return apart > 0 ? `${text} ago` : `in ${text}`;
}

/** A moment, as a clock shows it here: with the day if that is not today. */
export function moment(at_ms: number, now_ms = Date.now()): string {
  const at = new Date(at_ms);
  const sameDay = at.toDateString() === new Date(now_ms).toDateString();
  const time = at.toLocaleTimeString(undefined, { hour12: false });
  return sameDay ? time : `${at.toLocaleDateString(undefined, { dateStyle: "medium" })} ${time}`;
}
