"""Does what it is told and answers with what came of it, so that tests see every function of the
context. `worker.js` does the same."""

import json

import hivewire


class Worker(hivewire.Worker):
    memory = 0
    args = ""

    def init(self, args, context):
        self.args = args.decode()

    def receive(self, message, context):
        state = context.state
        self.memory += 1
        if message.kind == "timer":
            state.set("timer", f"{message.name}:{message.text()}")
            return
        if message.kind in ("reply", "timed-out"):
            asker = state.get_json(f"ask/{message.ticket}")
            state.remove(f"ask/{message.ticket}")
            headers = {} if asker["id"] is None else {"correlation-id": asker["id"]}
            context.send(asker["address"], f"{message.kind}:{message.text()}", headers)
            return
        if message.kind == "child-ended":
            state.set("ended", message.name)
            return
        order, *words = message.text().split(" ")
        answer = getattr(self, f"order_{order}")(words, message, context)
        if message.expects_reply and answer is not None:
            body, headers = answer if isinstance(answer, tuple) else (answer, None)
            context.reply(message, body, headers)

    def order_fail(self, words, message, context):
        raise ValueError("it was told to fail")

    def order_args(self, words, message, context):
        return self.args

    def order_memory(self, words, message, context):
        return str(self.memory)

    def order_headers(self, words, message, context):
        return message.headers["colour"], {"shade": "dark"}

    def order_json(self, words, message, context):
        return json.dumps(json.loads(" ".join(words))["deep"])

    def order_send(self, words, message, context):
        try:
            context.send(words[0], "sent")
            return "sent"
        except hivewire.Failure as failure:
            return f"refused: {failure}"

    def order_ask(self, words, message, context):
        address, timeout_ms, *rest = words
        ticket = context.ask(address, " ".join(rest), int(timeout_ms))
        asker = {
            "address": context.reply_address(message),
            "id": message.headers.get("correlation-id"),
        }
        context.state.set_json(f"ask/{ticket}", asker)

    def order_timer(self, words, message, context):
        context.set_timer("cancelled", 1, "never")
        context.cancel_timer("cancelled")
        context.set_timer(words[0], 1, "tock")
        return "set"

    def order_spawn(self, words, message, context):
        context.spawn(words[0], "child")
        return f"{context.address()}/{words[0]}"

    def order_end(self, words, message, context):
        context.end()
        return "ends"

    def order_get(self, words, message, context):
        return context.state.get_text(words[0]) or "nothing"

    def order_scan(self, words, message, context):
        for key in ("s/1", "s/2", "s/3"):
            context.state.set(key, key.upper())
        context.state.remove("s/2")
        pairs = context.state.scan("s/", 10, "s/0")
        return " ".join(f"{key.decode()}={value.decode()}" for key, value in pairs)

    def order_surroundings(self, words, message, context):
        context.log("a line from the probe", "warn")
        print("printed", "by the probe")
        numbers = context.now() > 1_700_000_000 and context.random() != context.random()
        return "fine" if numbers else "wrong"

    def save(self):
        return str(self.memory)

    def load(self, snapshot):
        self.memory = int(snapshot)
