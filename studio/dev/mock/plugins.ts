// Plug-ins of the mock, with parameters as the node describes them.

const period = { type: "string", pattern: "^[0-9]+(ms|s|m|h|d)$" };
const cel = { type: "string", format: "cel" };
const onError = {
  description: "What happens with an event for which something cannot be computed.",
  default: "retry",
  oneOf: [
    { const: "retry", type: "string", description: "It is tried again as often as the stage allows and then goes to the dead letters, with the reason." },
    { const: "skip", type: "string", description: "It is left out and counted." },
    { const: "refused", type: "string", description: "It goes to the output `refused`, with the reason." },
  ],
};
const one = (name: string, inner: unknown, description: string) => ({ type: "object", properties: { [name]: inner }, required: [name], additionalProperties: false, description });
const computation = {
  oneOf: [
    { const: "count", type: "string", description: "How many events there were." },
    one("sum", cel, "The sum of this expression."),
    one("average", cel, "The average of this expression."),
    one("distinct", cel, "How many different values this expression had."),
    one("top", { type: "object", properties: { of: { ...cel, description: "The expression." }, k: { type: "integer", minimum: 0, description: "How many, at most 100." } }, required: ["of", "k"] }, "The most frequent values of an expression with their counts."),
  ],
};
const object = (properties: Record<string, unknown>, required: string[] = []) => ({ type: "object", properties, required, additionalProperties: false });
const out = (description: string, ...more: [string, string][]) => [["out", description], ...more].map(([name, description]) => ({ name, description }));

type Row = [id: string, kind: "provider" | "processor", category: string, description: string, parameters: unknown, outputs: unknown];

const rows: Row[] = [
  ["generator", "provider", "sources", "Makes events up, for trying things out and for measuring.", object({ count: { type: ["integer", "null"], minimum: 0, description: "How many there are; without it, they never end." }, event: { ...cel, type: ["string", "null"], description: "The event, of its number n and of random." }, per_second: { type: ["number", "null"], exclusiveMinimum: 0, description: "How many a second; without it, as many as the flow takes." }, seed: { type: "integer", default: 0, description: "Decides what random is." } }), out("The events.")],
  ["timer", "provider", "sources", "Gives an event every so often.", object({ every: { ...period, description: "How long after the one before each event comes." }, count: { type: ["integer", "null"] } }, ["every"]), out("Records n, at.")],
  ["file-lines", "provider", "sources", "Reads the lines of a file, once or as they are added.", object({ file: { type: "string", description: "The file, in the folder of flows." }, follow: { type: "boolean", default: false, description: "Whether to wait for more lines at the end of the file." }, line_bytes_max: { type: "integer", minimum: 1, maximum: 16777216, default: 1048576, description: "How long a line may be." } }, ["file"]), out("The lines.", ["refused", "Lines that are too long or not UTF-8."])],
  ["from-queue", "provider", "sources", "Takes messages from a queue.", object({ queue: { type: "string", minLength: 1, description: "The queue." } }, ["queue"]), out("The messages.")],
  ["map", "processor", "change", "Makes another event of each event.", object({ to: { ...cel, description: "The new event." }, on_error: onError }, ["to"]), out("The new events.", ["refused", "Events that could not be handled."])],
  ["answer", "processor", "change", "Answers whoever asks, and passes events on.", object({ with: { ...cel, description: "What is answered; without it, the event." }, status: { ...cel, description: "The status of the answer to a request over HTTP." } }), out("The events.", ["refused", "Events that could not be handled."])],
  ["filter", "processor", "change", "Lets those events pass for which an expression is true.", object({ where: { ...cel, description: "Which events pass." }, on_error: onError }, ["where"]), out("Events that pass.", ["refused", "Events that could not be handled."])],
  ["flat-map", "processor", "change", "Makes any number of events of each event.", object({ to: { ...cel, description: "A list of events." }, on_error: onError }, ["to"]), out("The events.")],
  ["split", "processor", "change", "Sends each event to the first output whose condition is true for it.", object({ outputs: { type: "array", minItems: 1, description: "Outputs in the order in which they are tried.", items: object({ name: { type: "string", pattern: "^[a-z][a-z0-9-]*$" }, if: cel }, ["name", "if"]) } }, ["outputs"]), [{ name: "rest", description: "What fits no condition." }, { name: "alert", description: "" }]],
  ["aggregate", "processor", "state", "Computes running values over all events of a key: count, sum, min, max, average, distinct, top, collect.", object({ by: { ...cel, type: ["string", "null"], description: "The key: events of the same key belong together." }, compute: { type: "object", additionalProperties: computation, description: "What is computed, by name." }, every: { ...period, type: ["string", "null"], description: "How often results come out: without it, after each event." }, keys_max: { type: "integer", minimum: 0, default: 100000, description: "How many keys there may be in one bucket of the stage." }, on_error: onError }, ["compute"]), out("The values of a key that changed, with the key.")],
  ["window", "processor", "state", "Computes values over the events of a key within windows of time: tumbling, sliding or session.", object({ cut: { oneOf: [one("tumbling", period, "Windows that follow each other."), one("sliding", object({ size: period, every: period }, ["size", "every"]), "Windows that overlap."), one("session", period, "Windows that end when nothing came for this long.")], description: "How time is cut." }, time: { ...cel, description: "When an event happened." }, by: { ...cel, type: ["string", "null"], description: "The key." }, compute: { type: "object", additionalProperties: computation, description: "What is computed, by name." }, lateness: { ...period, default: "0ms", description: "How long after a window was complete an event still changes it." }, on_error: onError }, ["cut", "time", "compute"]), out("Windows.", ["late", "Events that came too late."])],
  ["enrich", "processor", "state", "Adds to each event what a table knows about it.", object({ key: cel, file: { type: "string" }, headers: { type: "object", additionalProperties: { type: "string" } } }, ["key", "file"]), out("Events with what was found.", ["missing", "Events of which the table knows nothing."])],
  ["to-queue", "processor", "sinks", "Sends each event to a queue, as JSON.", object({ queue: { type: "string", minLength: 1 } }, ["queue"]), []],
  ["to-sqlite", "processor", "sinks", "Writes each event into a table of an SQLite database.", object({ file: { type: "string" }, table: { type: "string", pattern: "^[A-Za-z_][A-Za-z0-9_]*$" } }, ["file", "table"]), []],
  ["seed", "provider", "crawl", "Gives the URLs with which a crawl begins.", object({ urls: { type: "array", items: { type: "string", format: "uri" }, minItems: 1, description: "Where to begin." } }, ["urls"]), out("URLs.")],
  ["url-normaliser", "processor", "crawl", "Writes each URL in one way, so that a page has one URL only.", object({}), out("URLs.")],
  ["seen-urls", "processor", "crawl", "Lets each URL pass once.", object({}), out("New URLs.")],
  ["frontier", "processor", "crawl", "Keeps URLs on disk, and hands them out one by one at the pace of their host.", object({ pages_max: { type: "integer", default: 100000 } }), out("URLs that are due.")],
  ["downloader", "processor", "crawl", "Fetches pages over HTTP.", object({ timeout: { ...period, default: "20s" }, headers: { type: "object", additionalProperties: { type: "string" } } }), out("Pages.", ["failed", "What could not be fetched."])],
  ["link-extractor", "processor", "crawl", "Finds where pages lead.", object({}), out("Links.")],
  ["page-store", "processor", "crawl", "Stores pages in a database.", object({ file: { type: "string" } }, ["file"]), []],
];

export const plugins = [
  ...rows.map(([id, kind, category, description, parameters, outputs]) => ({
    id, kind, category, description, parameters, outputs, title: id, author: "Hivewire", licence: "MIT OR Apache-2.0", newest: "0.9.0", repository: "built-in", versions: ["0.9.0"],
  })),
  { id: "billing", kind: "processor", category: "own", title: "Billing", description: "Makes a bill of an order.", author: "Ada", licence: "MIT", newest: "1.4.2", repository: "local", versions: ["1.4.2", "1.4.1", "1.3.0"], parameters: object({ currency: { type: "string", enum: ["EUR", "USD", "CHF"], default: "EUR" } }), outputs: out("Bills.") },
];

export const examples = [
  ["word-count", "Count words", "Reads a text line by line and counts how often each word comes.", "lines", "file", "File to read", "text.txt"],
  ["sensor-alerts", "Sensor alerts", "Averages temperatures over a minute and warns about sensors that are too hot.", "sensors", "per_second", "Readings a second", 950],
  ["order-enrichment", "Enrich orders", "Adds to each order what a table knows about its customer.", "orders", "queue", "Queue of orders", "orders"],
  ["crawl-site", "Crawl a site", "Fetches a site politely, at the pace of its hosts, and stores its pages.", "seeds", "urls", "Where to begin", ["https://example.com/"]],
] as const;
