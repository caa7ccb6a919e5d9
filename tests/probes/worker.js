// Does what it is told and answers with what came of it, so that tests see every function of the
// context. `worker.py` does the same.

let memory = 0;
let args = "";

export function init(bytes) {
  args = new TextDecoder().decode(bytes);
}

export function receive(message, context) {
  const { state } = context;
  memory += 1;
  if (message.kind === "timer") {
    state.set("timer", `${message.name}:${message.text()}`);
    return;
  }
  if (message.kind === "reply" || message.kind === "timed-out") {
    const asker = state.getJson(`ask/${message.ticket}`);
    state.remove(`ask/${message.ticket}`);
    const headers = asker.id === null ? {} : { "correlation-id": asker.id };
    context.send(asker.address, { body: `${message.kind}:${message.text()}`, headers });
    return;
  }
  if (message.kind === "child-ended") {
    state.set("ended", message.name);
    return;
  }
  const [order, ...words] = message.text().split(" ");
  const answer = orders[order](words, message, context);
  if (message.expectsReply && answer !== undefined) context.reply(message, answer);
}

const orders = {
  fail() {
    throw new Error("it was told to fail");
  },
  args: () => args,
  memory: () => String(memory),
  headers: (_, message) => ({ body: message.headers.colour, headers: { shade: "dark" } }),
  json: (words) => JSON.stringify(JSON.parse(words.join(" ")).deep),
  send([address], _, context) {
    try {
      context.send(address, "sent");
      return "sent";
    } catch (error) {
      return `refused: ${error.message}`;
    }
  },
  ask([address, timeoutMs, ...words], message, context) {
    const ticket = context.ask(address, words.join(" "), Number(timeoutMs));
    const id = message.headers["correlation-id"] ?? null;
    context.state.setJson(`ask/${ticket}`, { address: context.replyAddress(message), id });
  },
  timer([name], _, context) {
    context.setTimer("cancelled", 1, "never");
    context.cancelTimer("cancelled");
    context.setTimer(name, 1, "tock");
    return "set";
  },
  spawn([name], _, context) {
    context.spawn(name, "child");
    return `${context.address()}/${name}`;
  },
  end: (_, __, context) => {
    context.end();
    return "ends";
  },
  get: ([key], _, context) => context.state.getText(key) ?? "nothing",
  scan(_, __, context) {
    const { state } = context;
    for (const key of ["s/1", "s/2", "s/3"]) state.set(key, key.toUpperCase());
    state.remove("s/2");
    const text = (bytes) => new TextDecoder().decode(bytes);
    const pairs = state.scan("s/", 10, "s/0");
    return pairs.map(([key, value]) => `${text(key)}=${text(value)}`).join(" ");
  },
  surroundings(_, __, context) {
    context.log("warn", "a line from the probe");
    console.log("printed", { by: "the probe" });
    const numbers = context.now() > 1_700_000_000_000 && context.random() !== context.random();
    return numbers ? "fine" : "wrong";
  },
};

export function save() {
  return String(memory);
}

export function load(snapshot) {
  memory = Number(new TextDecoder().decode(snapshot));
}
