// What can be asked of a node over HTTP, as lines for a shell.

/** In single quotes, in which nothing has a meaning. */
export function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

interface Call {
  method?: string;
  path: string;
  type?: string;
  body?: string;
  /** Services ask for no token. */
  open?: boolean;
}

/** The flag for the method, where curl would not choose it by itself. */
function methodFlag(method: string, body: string | undefined): string {
  if (method === "HEAD") return " -I";
  return method === (body === undefined ? "GET" : "POST") ? "" : ` -X ${method}`;
}

export function curl(address: string, { method = "GET", path, type, body, open = false }: Call): string {
  const lines = open ? [] : ['-H "Authorization: Bearer $TOKEN"'];
  if (type) lines.push(`-H ${quoted(`Content-Type: ${type}`)}`);
  if (body !== undefined) lines.push(`--data-binary ${quoted(body)}`);
  lines.push(quoted(`${address}${path}`));
  return `curl${methodFlag(method, body)} ${lines.join(" \\\n  ")}`;
}
