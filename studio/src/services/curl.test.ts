import { expect, it } from "vitest";
import { curl, quoted } from "./curl";

it("writes lines that a shell understands as they are meant", () => {
  expect(quoted("http://a/b")).toBe("http://a/b");
  expect(quoted("it's $HOME")).toBe("'it'\\''s $HOME'");
  expect(curl("http://a", { path: "/b" })).toBe('curl -H "Authorization: Bearer $TOKEN" \\\n  http://a/b');
  expect(curl("http://a", { method: "POST", path: "/b?c=1", type: "text/plain", body: "x y" })).toBe("curl -H \"Authorization: Bearer $TOKEN\" \\\n  -H 'Content-Type: text/plain' \\\n  --data-binary 'x y' \\\n  'http://a/b?c=1'");
});
