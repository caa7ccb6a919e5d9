// Where the token is found: in the address that `hivewire up` prints, or where an earlier visit left it.

export const TOKEN_KEY = "hivewire.token";

export interface Store {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

export interface Found {
  token: string | null;
  /** The address without the token, if it was in there: it must not stay in the history of the browser. */
  address: string | null;
}

/** Looks for `#token=…`, then for `?token=…`. */
export function tokenInAddress(address: string): Found {
  const url = new URL(address);
  let token: string | null = null;
  const query = url.searchParams.get("token");
  if (query !== null) {
    token = query;
    url.searchParams.delete("token");
  }
  const fragment = url.hash.slice(1);
  if (fragment.startsWith("token=")) {
    const parts = new URLSearchParams(fragment);
    token = parts.get("token");
    const page = parts.get("page");
    url.hash = page ?? "";
  }
  if (token === null) return { token: null, address: null };
  return { token: token.trim() || null, address: url.pathname + url.search + url.hash };
}

/** Storage can be forbidden, and then everything lasts for this page only. */
export function storesOf(window: { sessionStorage?: Store; localStorage?: Store }): Store[] {
  const stores: Store[] = [];
  for (const name of ["sessionStorage", "localStorage"] as const) {
    try {
      const store = window[name];
      if (store) stores.push(store);
    } catch {
      // Forbidden.
    }
  }
  return stores;
}

export function readToken(stores: Store[]): string | null {
  for (const store of stores) {
    const token = store.getItem(TOKEN_KEY);
    if (token) return token;
  }
  return null;
}

export function keepToken(stores: Store[], token: string | null): void {
  for (const store of stores) {
    try {
      if (token) store.setItem(TOKEN_KEY, token);
      else store.removeItem(TOKEN_KEY);
    } catch {
      // Full or forbidden.
    }
  }
}

/** WebSockets of a page can have no header, so the token is one of the protocols that they offer. */
export function tokenProtocol(token: string): string {
  return `hivewire.token.${encodeURIComponent(token)}`;
}
