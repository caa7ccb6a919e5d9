// What went wrong with a request, as the pages show it: always a title, and a detail that says what to do.
import type { components } from "./schema";

export type ProblemBody = components["schemas"]["Problem"];
export type DocumentProblem = components["schemas"]["DocumentProblem"];

export class ApiProblem extends Error {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** For programs: `urn:hivewire:…`; `about:network` if there was no answer, `about:timeout` if it took too long. */
  readonly kind: string;
  /** What is wrong with a flow document, if that is what went wrong. */
  readonly problems: DocumentProblem[];
  /** Where in the parameters the mistake is, as a JSON pointer. */
  readonly pointer: string | null;

  constructor(body: Partial<ProblemBody>) {
    super(`${body.title ?? "Problem"}: ${body.detail ?? ""}`);
    this.name = "ApiProblem";
    this.status = body.status ?? 0;
    this.title = body.title ?? "The request failed";
    this.detail = body.detail ?? "";
    this.kind = body.type ?? "about:blank";
    this.problems = body.problems ?? [];
    this.pointer = body.pointer ?? null;
  }

  get isUnreachable(): boolean {
    return this.status === 0;
  }

  static network(): ApiProblem {
    return new ApiProblem({
      type: "about:network",
      title: "The node does not answer",
      detail: "See whether it runs and can be reached: hivewire status. The studio tries again by itself.",
    });
  }

  static timeout(timeout_ms: number): ApiProblem {
    return new ApiProblem({
      type: "about:timeout",
      title: "The node took too long",
      detail: `There was no answer within ${timeout_ms / 1000} s. Try again; what was asked for may still be done.`,
    });
  }

  /** Whatever was thrown, as a problem that can be shown. */
  static of(thrown: unknown): ApiProblem {
    if (thrown instanceof ApiProblem) return thrown;
    const detail = thrown instanceof Error ? thrown.message : String(thrown);
    return new ApiProblem({ type: "about:studio", title: "Something in the studio went wrong", detail });
  }
}

/** Reads the problem document of an answer; other bodies become one, too. */
export async function problemOf(answer: Response): Promise<ApiProblem> {
  const text = await answer.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (body !== null && typeof body === "object" && "title" in body) {
      return new ApiProblem({ status: answer.status, ...(body as Partial<ProblemBody>) });
    }
  } catch {
    // No JSON: the text itself is all there is to tell.
  }
  return new ApiProblem({
    status: answer.status,
    title: answer.statusText || `The node answered ${answer.status}`,
    detail: text.slice(0, 500),
  });
}
