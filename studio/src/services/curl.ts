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
