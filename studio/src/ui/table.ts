// What a table shows of its rows: order and, of many, the part that can be seen.

export interface Column<Row> {
  key: string;
  title: string;
  /** What it is called for those who listen, if it has no title. */
  name?: string;
  /** What it is sorted by, and shown as unless the page draws the cell. */
  value?: (row: Row) => string | number | null | undefined;
  /** The text of the cell if it is other than the value, such as with a unit. */
  text?: (row: Row) => string;
  align?: "start" | "end";
  /** A CSS width. */
  width?: string;
  /** Without it, columns with a value can be sorted by. */
  fixed?: boolean;
  mono?: boolean;
  /** Left out where there is little room. */
  extra?: boolean;
}

export interface Order {
  key: string;
  down: boolean;
}

const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** The rows in this order; what has no value comes last either way. */
export function sorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order | null): readonly Row[] {
  const value = columns.find(({ key }) => key === order?.key)?.value;
  if (!order || !value) return rows;
  const sign = order.down ? -1 : 1;
  const keyed = rows.map((row) => ({ row, by: value(row) }));
  keyed.sort((a, b) => {
    if (a.by === null || a.by === undefined) return b.by === null || b.by === undefined ? 0 : 1;
    if (b.by === null || b.by === undefined) return -1;
    if (typeof a.by === "number" && typeof b.by === "number") return sign * (a.by - b.by);
    return sign * words.compare(String(a.by), String(b.by));
  });
  return keyed.map(({ row }) => row);
}

export interface Slice {
  first: number;
  last: number;
  before: number;
  after: number;
}

/** Which rows are drawn, and the heights of what stands for the others. */
export function slice(count: number, row_height: number, scroll_top: number, height: number, margin = 10): Slice {
  const first = Math.max(0, Math.min(count, Math.floor(scroll_top / row_height)) - margin);
  const last = Math.min(count, Math.ceil((scroll_top + height) / row_height) + margin);
  return { first, last, before: first * row_height, after: Math.max(0, count - last) * row_height };
}
