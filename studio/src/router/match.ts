// Addresses of pages: what is behind `#`, such as `/flows/shop/edit?stage=orders`.

export interface Place {
  path: string;
  query: Record<string, string>;
}

/** Reads what is behind `#`. Whatever is no path is the first page. */
export function readPlace(hash: string): Place {
  const text = hash.replace(/^#/, "");
  const [path = "", query = ""] = text.split(/\?(.*)/s);
  return {
    path: path.startsWith("/") ? path.replace(/\/+$/, "") || "/" : "/",
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** The values of `:name` in the pattern if the path fits it, otherwise null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (wanted.length !== given.length) return null;
  const values: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const piece = given[index] ?? "";
    if (part.startsWith(":")) {
      try {
        values[part.slice(1)] = decodeURIComponent(piece);
      } catch {
        return null;
      }
    } else if (part !== piece) return null;
  }
  return values;
}

type Values = Record<string, string | number | undefined | null>;

/** The address of a page: `href("/flows/:flow", { flow: "shop" })`. */
export function href(pattern: string, values: Values = {}, query: Values = {}): string {
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(values[name] ?? "")));
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return `#${path}${text ? `?${text}` : ""}`;
}
