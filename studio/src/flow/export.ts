// A document as a file.
import { writeDocument, type Doc } from "./model/document";

export async function exportFlow(doc: Doc, kind: "toml" | "json"): Promise<void> {
  const written = writeDocument(doc);
  const text = kind === "json" ? `${JSON.stringify(written, null, 2)}\n` : (await import("./model/toml")).tomlOf(written as never);
  const url = URL.createObjectURL(new Blob([text], { type: kind === "json" ? "application/json" : "application/toml" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${doc.flow}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
