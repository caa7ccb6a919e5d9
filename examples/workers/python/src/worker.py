"""Counts messages, answers with the number, and emits it to the output `counts`."""

import hivewire


class Worker(hivewire.Worker):
    def receive(self, message, context):
        count = int(context.state.get("count") or 0) + 1
        context.state.set("count", str(count))
        context.emit("counts", str(count))
        if message.expects_reply:
            context.reply(message, str(count))
