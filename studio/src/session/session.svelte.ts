// Who is signed in: the token, and whether the node takes it.
import { api, useCredentials } from "../api/client";
import { keepToken, readToken, storesOf, TOKEN_KEY, tokenInAddress } from "./token";

class Session {
  token = $state<string | null>(null);
  /** Why the sign-in page is shown, if that is not simply the first visit. */
  reason = $state<"refused" | "signed-out" | null>(null);
  #stores = storesOf(window);

  begin(): void {
    this.#take();
    this.token ??= readToken(this.#stores);
    useCredentials({ token: () => this.token, refused: () => this.refused() });
    // The address that `hivewire up` prints may be opened in a page that is there already.
    window.addEventListener("hashchange", () => this.#take());
    window.addEventListener("storage", (event) => {
      if (event.key === TOKEN_KEY && event.newValue === null && this.token) this.#end("signed-out");
    });
  }

  #take(): void {
    const found = tokenInAddress(location.href);
    if (found.address === null) return;
    history.replaceState(null, "", found.address);
    if (found.token) this.signIn(found.token);
  }

  signIn(token: string): void {
    this.token = token;
    this.reason = null;
    keepToken(this.#stores, token);
  }

  /** Whether the node takes this token; throws an ApiProblem if that cannot be known. */
  async check(token: string): Promise<boolean> {
    const answer = await fetch("/api/v1/node", {
      headers: { Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(10_000),
    });
    return answer.status !== 401;
  }

  signOut(): void {
    this.#end("signed-out");
  }

  refused(): void {
    if (this.token) this.#end("refused");
  }

  /** Browsers do not tell why a WebSocket failed; a request does, and ends the session if it is the token. */
  async probe(): Promise<void> {
    if (this.token) await api.get("/api/v1/node").catch(() => {});
  }

  #end(reason: "refused" | "signed-out"): void {
    this.token = null;
    this.reason = reason;
    keepToken(this.#stores, null);
  }
}

export const session = new Session();
