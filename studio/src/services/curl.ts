// What can be asked of a node over HTTP, as lines for a shell.

/** In single quotes, in which nothing has a meaning. */
export function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

interface Call {
  method?: "GET" | "POST";
  path: string;
  type?: string;
  body?: string;
}

export function curl(address: string, { method = "GET", path, type, body }: Call): string {
  const lines = [`curl${method === "GET" || body !== undefined ? "" : ` -X ${method}`} -H "Authorization: Bearer $TOKEN"`];
  if (type) lines.push(`-H ${quoted(`Content-Type: ${type}`)}`);
  if (body !== undefined) lines.push(`--data-binary ${quoted(body)}`);
  lines.push(quoted(`${address}${path}`));
  return lines.join(" \\\n  ");
}

export interface Route {
  method: string;
  path: string;
  summary: string;
}

const METHODS = ["get", "post", "put", "delete"];

/** All routes of an OpenAPI document, in its order. */
export function routesOf(document: unknown): Route[] {
  const paths = (document as { paths?: Record<string, Record<string, { summary?: string }>> } | null)?.paths ?? {};
  return Object.entries(paths).flatMap(([path, all]) =>
    METHODS.flatMap((method) => (all[method] ? [{ method: method.toUpperCase(), path, summary: all[method].summary ?? "" }] : [])));
}
