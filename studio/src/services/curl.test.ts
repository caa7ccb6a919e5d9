import { expect, it } from "vitest";
import { curl, quoted } from "./curl";

it("writes lines that a shell understands as they are meant", () => {
  expect(quoted("http://a/b")).toBe("http://a/b");
  expect(quoted("it's $HOME")).toBe("'it'\\''s $HOME'");
  expect(curl("http://a", { path: "/b" })).toBe('curl -H "Authorization: Bearer $TOKEN" \\\n  http://a/b');
  expect(curl("http://a", { method: "POST", path: "/b?c=1", type: "text/plain", body: "x y" })).toBe("curl -H \"Authorization: Bearer $TOKEN\" \\\n  -H 'Content-Type: text/plain' \\\n  --data-binary 'x y' \\\n  'http://a/b?c=1'");
});

it("calls services without a token, with the method of the route", () => {
  const call = (method: string, body?: string) => curl("http://a", { method, path: "/b", open: true, ...(body === undefined ? {} : { body }) });
  expect([call("GET"), call("HEAD"), call("DELETE"), call("POST")]).toEqual(["curl http://a/b", "curl -I http://a/b", "curl -X DELETE http://a/b", "curl -X POST http://a/b"]);
  expect([call("POST", "x"), call("PUT", "x"), call("GET", "x")]).toEqual(["curl", "curl -X PUT", "curl -X GET"].map((begin) => `${begin} --data-binary x \\\n  http://a/b`));
});
