// Flow documents of the mock: checked a little, applied, with ETags and versions.
import { readFileSync } from "node:fs";
import { flows, type MockFlow } from "./flows";
import { plugins } from "./plugins";

export class Refusal extends Error {
  constructor(readonly status: number, readonly title: string, readonly detail: string) { super(title); }
}

export function flowOf(name: string): MockFlow {
  const found = flows.find(({ flow }) => flow === name);
  if (!found) throw new Refusal(404, "No such flow", `There is no flow ${name}: GET /api/v1/flows lists them.`);
  return found;
}

export const documentOf = ({ pace: _, ...document }: MockFlow) => document;
export const flowSchema: unknown = JSON.parse(readFileSync(new URL("../../../docs/reference/flow-schema.json", import.meta.url), "utf8"));

const hour = 3_600_000;
const versions = new Map<string, { version: number; at_ms: number; document: ReturnType<typeof documentOf> }[]>();

/** Each began with a version that was a little other. */
function kept(flow: string) {
  let found = versions.get(flow);
  if (!found) {
    const document = documentOf(flowOf(flow));
    const [name = "", stage] = Object.entries(document.stages).at(-1) ?? [];
    const before = { ...document, description: "As it was at first", stages: { ...document.stages, [name]: { ...stage, workers: (stage?.workers ?? 1) + 1, parameters: { ...(stage?.parameters as object), by: "event.text" } } } } as typeof document;
    found = [{ version: 2, at_ms: Date.now() - hour, document }, { version: 1, at_ms: Date.now() - 26 * hour, document: before }];
    versions.set(flow, found);
  }
  return found;
}

export const etagOf = (flow: string) => `"${kept(flow)[0]?.version}"`;
export const versionsOf = (flow: string) => kept(flow).map(({ version, at_ms, document }) => ({ version, at_ms, stages: Object.keys(document.stages).length }));
export function versionOf(flow: string, version: number) {
  const found = kept(flow).find((one) => one.version === version);
  if (!found) throw new Refusal(404, "No such version", `${flow} has no version ${version}.`);
  return found.document;
}

export function checkDocument(body: string) {
  if (!body.trimStart().startsWith("{")) return { sound: true, problems: [] };
  const document = JSON.parse(body) as MockFlow;
  const problems: { severity: string; stage: string; path: string; message: string }[] = [];
  const known = new Map(plugins.map((plugin) => [plugin.id, plugin]));
  for (const [name, stage] of Object.entries(document.stages ?? {})) {
    const plugin = known.get(stage.plugin.split("@")[0] ?? "");
    if (!plugin) { problems.push({ severity: "error", stage: name, path: `stages.${name}.plugin`, message: `there is no plug-in ${stage.plugin}` }); continue; }
    const schema = plugin.parameters as { required?: string[] } | null;
    for (const field of schema?.required ?? []) {
      const value = (stage.parameters as Record<string, unknown> | undefined)?.[field];
      if (value === undefined || value === "") problems.push({ severity: "error", stage: name, path: `stages.${name}.parameters.${field}`, message: `${field} is missing here` });
    }
  }
  return { sound: problems.length === 0, problems };
}

function served(before: NonNullable<MockFlow["http"]>, after: NonNullable<MockFlow["http"]>): string[] {
  const named = (routes: typeof before) => routes.map((route) => ({ key: JSON.stringify(route), text: `${route.route} by ${route.stage}` }));
  const old = named(before), now = named(after);
  const parts = [...now.filter(({ key }) => !old.some((one) => one.key === key)).map(({ text }) => `answer ${text}`), ...old.filter(({ key }) => !now.some((one) => one.key === key)).map(({ text }) => `no longer ${text}`)];
  return parts.length > 0 ? [`over HTTP: ${parts.join(", ")}`] : [];
}

export function applyDocument(flow: string, given: MockFlow, plan: boolean, if_match: string | undefined) {
  const at = flows.findIndex((one) => one.flow === flow);
  if (at >= 0 && if_match && if_match !== etagOf(flow)) throw new Refusal(412, "Changed meanwhile", "what is there is not what If-Match names");
  const before: MockFlow["stages"] = at >= 0 ? (flows[at] as MockFlow).stages : {};
  const shape = ({ position: _, ...rest }: MockFlow["stages"][string]) => JSON.stringify(rest, Object.keys(rest).sort());
  const sentences = [
    ...Object.keys(given.stages).filter((name) => !before[name]).map((name) => `add ${flow}/${name}`),
    ...Object.entries(given.stages).filter(([name, stage]) => before[name] && shape(before[name]) !== shape(stage)).map(([name]) => `change ${flow}/${name}: its settings, between two batches`),
    ...Object.keys(before).filter((name) => !given.stages[name]).map((name) => `remove ${flow}/${name} once nothing waits for it`),
    ...served(flows[at]?.http ?? [], given.http ?? []),
  ];
  if (!plan) {
    const list = at >= 0 ? kept(flow) : [];
    flows.splice(at < 0 ? flows.length : at, at < 0 ? 0 : 1, { ...given, pace: flows[at]?.pace ?? 20 });
    list.unshift({ version: (list[0]?.version ?? 0) + 1, at_ms: Date.now(), document: documentOf(flowOf(flow)) });
    versions.set(flow, list);
  }
  return { flow, version: at >= 0 || !plan ? kept(flow)[0]?.version : 0, changed: sentences.length > 0, etag: at >= 0 || !plan ? etagOf(flow) : null, warnings: [], steps: sentences.map((sentence) => ({ sentence })) };
}
