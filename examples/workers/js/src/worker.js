// Counts messages, answers with the number, and emits it to the output `counts`.

/** @type {import("./hivewire").Receive} */
export function receive(message, context) {
  const count = Number(context.state.getText("count") ?? 0) + 1;
  context.state.set("count", String(count));
  context.emit("counts", String(count));
  if (message.expectsReply) context.reply(message, String(count));
}
