// What can be said at once about a document, before the node has looked at it.
import type { DocumentProblem } from "../../api/types";
import { nameProblem, placeOf, type Doc } from "./document";
import { checkRoutes } from "./http";
import { isProvider, pluginOf, type Plugins } from "./plugins";

type Problem = DocumentProblem;

export function checkLocally(doc: Doc, plugins: Plugins): Problem[] {
  const problems: Problem[] = [];
  const say = (severity: Problem["severity"], stage: string | null, path: string, message: string) => problems.push({ severity, stage, path, message });
  const reached = new Set<string>((doc.http ?? []).map(({ stage }) => stage));
  const fromOutside = plugins.size > 0;
  for (const [name, stage] of Object.entries(doc.stages)) {
    const at = `stages.${name}`;
    const wrong = nameProblem(name);
    if (wrong) say("error", name, at, wrong);
    const plugin = pluginOf(plugins, stage);
    if (!stage.plugin) say("error", name, `${at}.plugin`, "Choose a plug-in for this stage");
    if (stage.key && stage.router) say("error", name, `${at}.router`, "A stage has either a key or a router: a key decides by itself which worker gets an event");
    if (stage.workers !== undefined && stage.scale) say("error", name, `${at}.workers`, "A stage has either a fixed number of workers or a scaling rule");
    if (stage.key !== undefined && !/^(json:\/.*|header:.+|body)$/.test(stage.key)) say("error", name, `${at}.key`, "A key is json:/FIELD, header:NAME or body");
    if (plugin?.kind === "provider" && (stage.key || stage.router || stage.scale)) say("error", name, at, "A provider has no input, so it has neither key nor router nor scale");
    for (const [output, targets] of Object.entries(stage.outputs ?? {})) {
      targets.forEach((target, index) => {
        reached.add(target);
        const path = `${at}.outputs.${output}.${index}`;
        if (placeOf(doc, target) === "nowhere") say("error", name, path, `There is no stage ${target} in this flow`);
        else if (isProvider(plugins, doc, target)) say("error", name, path, `${target} is a provider and has no input: ${name} cannot lead there`);
        else if (/^(queue|topic):$/.test(target)) say("error", name, path, "The queue or topic needs a name");
      });
    }
  }
  for (const name of Object.keys(doc.stages)) {
    if (fromOutside && !reached.has(name) && pluginOf(plugins, doc.stages[name])?.kind === "processor") {
      say("warning", name, `stages.${name}`, "Nothing leads to this stage: only others can send to it");
    }
  }
  return [...problems, ...checkRoutes(doc, plugins)];
}

/** What both sides say, without saying it twice: the node knows more, so its word on a field counts. */
export function joinProblems(own: readonly Problem[], said: readonly Problem[]): Problem[] {
  const known = new Set(said.map(({ path, stage }) => `${stage} ${path}`));
  const stagesSaid = new Set(said.filter(({ severity }) => severity === "warning").map(({ stage }) => stage));
  const all = [...said, ...own.filter(({ path, stage, severity }) => !known.has(`${stage} ${path}`) && !(severity === "warning" && stagesSaid.has(stage)))];
  return all.sort((a, b) => Number(a.severity === "warning") - Number(b.severity === "warning"));
}

/** Problems of one stage by the place in its parameters, as forms want them. */
export function parameterProblems(problems: readonly Problem[], stage: string): Map<string, string> {
  const prefix = `stages.${stage}.parameters`;
  const found = new Map<string, string>();
  for (const { path, message } of problems) {
    if (path !== prefix && !path.startsWith(`${prefix}.`)) continue;
    found.set(path.slice(prefix.length).replaceAll(".", "/"), message);
  }
  return found;
}
