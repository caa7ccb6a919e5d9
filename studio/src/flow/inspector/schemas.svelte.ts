// The JSON Schema of flow documents, fetched once: forms of limits, scaling and supervision are made from it.
import { api } from "../../api/client";
import { ApiProblem } from "../../api/problem";
import type { Schema } from "../../forms/schema";

class Schemas {
  root = $state.raw<Schema | null>(null);
  problem = $state.raw<ApiProblem | null>(null);
  #asked = false;

  load = (again = false): void => {
    if (this.#asked && !again) return;
    this.#asked = true;
    this.problem = null;
    api.get("/api/v1/document-schema").then(
      (schema) => (this.root = schema as Schema),
      (thrown: unknown) => (this.problem = ApiProblem.of(thrown)),
    );
  };

  /** The schema of a part, with what it refers to. */
  of(name: string): Schema | null {
    const part = this.root?.$defs?.[name];
    return this.root && typeof part === "object" ? { ...part, description: "", $defs: this.root.$defs ?? {} } : null;
  }
}

export const schemas = new Schemas();
