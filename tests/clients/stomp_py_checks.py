"""stomp.py, a client library that many programs use, against the broker."""

import logging
import queue
import ssl
import threading
import time

import stomp

from checks import TIMEOUT_SECONDS, CheckFailed, check, holds, main, same, wait_until

# Broken connections are part of the checks; what counts is said by them.
logging.getLogger("stomp.py").setLevel(logging.CRITICAL)

VERSIONS = ("1.0", "1.1", "1.2")
LATER_VERSIONS = ("1.1", "1.2")
CLASSES = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}
# Long enough to notice a message that must not come.
QUIET_SECONDS = 0.3
# What the broker is told for these checks: shorter than by default, to see several of them.
HEART_BEAT_MS = 1000
SUBSCRIPTIONS_MAX = 50


class Client(stomp.ConnectionListener):
    """One connection that keeps what comes."""

    def __init__(self, place, version="1.2", text=True, **options):
        self.version = version
        self.is_encrypted = place.authority is not None
        self.messages = queue.Queue()
        self.receipts = {}
        self.errors = queue.Queue()
        self.connected = None
        self.heart_beats = 0
        self.heart_beat_missed = False
        self.gone = threading.Event()
        self._receipt_number = 0
        self.connection = CLASSES[version](
            [(place.host, place.stomp_port)], auto_decode=text, reconnect_attempts_max=1, **options
        )
        if self.is_encrypted:
            self.connection.set_ssl(
                for_hosts=[(place.host, place.stomp_port)], ca_certs=place.authority
            )
        self.connection.set_listener("checks", self)
        self.connection.connect(wait=True)

    def on_connected(self, frame):
        self.connected = frame.headers

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts[frame.headers["receipt-id"]] = frame.headers

    def on_error(self, frame):
        self.errors.put(frame)

    def on_heartbeat(self):
        self.heart_beats += 1

    def on_heartbeat_timeout(self):
        self.heart_beat_missed = True

    def on_disconnected(self):
        self.gone.set()

    def new_receipt(self):
        self._receipt_number += 1
        return f"r{self._receipt_number}"

    def wait_receipt(self, receipt):
        """The headers of the receipt."""

        def arrived():
            if not self.errors.empty():
                error = self.errors.get()
                raise CheckFailed(f"ERROR instead of a receipt: {error.headers} {error.body}")
            return self.receipts.get(receipt)

        return wait_until(arrived, f"receipt {receipt}")

    def send(self, destination, body, **headers):
        """Sends and waits for the receipt."""
        receipt = self.new_receipt()
        self.connection.send(destination, body, headers={**headers, "receipt": receipt})
        return self.wait_receipt(receipt)

    def subscribe(self, destination, id="s", ack="auto", **headers):
        receipt = self.new_receipt()
        headers = {**headers, "receipt": receipt}
        self.connection.subscribe(destination, id=id, ack=ack, headers=headers)
        self.wait_receipt(receipt)

    def unsubscribe(self, id="s"):
        receipt = self.new_receipt()
        self.connection.unsubscribe(id=id, headers={"receipt": receipt})
        self.wait_receipt(receipt)

    def receive(self):
        try:
            return self.messages.get(timeout=TIMEOUT_SECONDS)
        except queue.Empty:
            raise CheckFailed("no message came") from None

    def bodies(self, count):
        return [self.receive().body for _ in range(count)]

    def is_quiet(self):
        try:
            self.messages.get(timeout=QUIET_SECONDS)
            return False
        except queue.Empty:
            return True

    def _answer(self, method, message, options):
        if self.version == "1.2":
            method(message.headers["ack"], **options)
        elif self.version == "1.1":
            method(message.headers["message-id"], message.headers["subscription"], **options)
        else:
            method(message.headers["message-id"], **options)

    def ack(self, message, **options):
        self._answer(self.connection.ack, message, options)

    def ack_confirmed(self, message, **options):
        receipt = self.new_receipt()
        self.ack(message, receipt=receipt, **options)
        return self.wait_receipt(receipt)

    def nack(self, message, **options):
        self._answer(self.connection.nack, message, options)

    def error(self):
        try:
            return self.errors.get(timeout=TIMEOUT_SECONDS)
        except queue.Empty:
            raise CheckFailed("no ERROR came") from None

    def wait_gone(self):
        if self.is_encrypted:
            # The library does not notice it then: it takes the end for a pause.
            holds(wait_until(self._is_at_end, "the end"), "the connection is closed")
        else:
            holds(self.gone.wait(TIMEOUT_SECONDS), "the connection is closed")

    def _is_at_end(self):
        try:
            return self.connection.transport.socket.recv(1) == b""
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True

    def disconnect(self):
        self.connection.disconnect()
        self.gone.wait(TIMEOUT_SECONDS)

    def drop(self):
        """Closes the socket without a word."""
        self.connection.transport.disconnect_socket()
        self.gone.wait(TIMEOUT_SECONDS)


def numbers(place, name):
    """What REST says about a queue; nothing if there is none."""
    found = [q for q in place.rest("/api/v1/queues")["queues"] if q["name"] == name]
    return found[0] if found else {}


def waiting(place, name):
    """How many messages a queue holds."""
    queue_numbers = numbers(place, name)
    return queue_numbers.get("waiting", 0) + queue_numbers.get("unacknowledged", 0)


def consumers(place, name):
    """How many subscriptions a queue has."""
    return numbers(place, name).get("consumers", 0)


@check
def connect_with_each_version(place):
    for version in VERSIONS:
        client = Client(place, version)
        same(client.connected.get("version"), version)
        holds(client.connected.get("server", "").startswith("hivewire/"), "the server says its name")
        holds(client.connected.get("session"), "the session has a name")
        client.disconnect()
        same(client.errors.empty(), True)


@check
def send_and_receive_with_each_version(place):
    for version in VERSIONS:
        client = Client(place, version)
        destination = f"/queue/p.each-{version}"
        client.subscribe(destination)
        client.send(destination, "grüße, 世界", kind="greeting")
        message = client.receive()
        same(message.body, "grüße, 世界", version)
        same(message.headers["destination"], destination, version)
        same(message.headers["subscription"], "s", version)
        same(message.headers["kind"], "greeting", version)
        client.disconnect()


@check
def every_pair_of_versions_shares_a_queue(place):
    for sender in VERSIONS:
        for receiver in VERSIONS:
            destination = f"/queue/p.pair-{sender}-{receiver}"
            one, two = Client(place, sender), Client(place, receiver)
            two.subscribe(destination)
            one.send(destination, "x", plain="value")
            message = two.receive()
            same((message.body, message.headers["plain"]), ("x", "value"), f"{sender} to {receiver}")
            one.disconnect()
            two.disconnect()


@check
def two_versions_at_once_on_one_queue(place):
    old, new, sender = Client(place, "1.0"), Client(place, "1.2"), Client(place, "1.1")
    destination = "/queue/p.two-versions"
    old.subscribe(destination, ack="client")
    new.subscribe(destination, ack="client-individual")
    for number in range(20):
        sender.send(destination, str(number))
    got_old, got_new = [], []
    for _ in range(10):
        message = old.receive()
        got_old.append(message.body)
        old.ack_confirmed(message)
        message = new.receive()
        got_new.append(message.body)
        new.ack_confirmed(message)
    same(sorted(got_old + got_new, key=int), [str(number) for number in range(20)])
    same(waiting(place, "p.two-versions"), 0)


@check
def heart_beats_keep_the_connection(place):
    for version in LATER_VERSIONS:
        client = Client(place, version, heartbeats=(HEART_BEAT_MS, HEART_BEAT_MS))
        same(client.connected["heart-beat"], f"{HEART_BEAT_MS},{HEART_BEAT_MS}", version)
        # More than long enough to be taken for dead if either side did not beat.
        wait_until(lambda: client.heart_beats >= 4, "four heart-beats of the server")
        same(client.connection.is_connected(), True, version)
        same(client.heart_beat_missed, False, version)
        same(client.errors.empty(), True, version)
        client.subscribe("/queue/p.heart")
        client.send("/queue/p.heart", "still here")
        same(client.receive().body, "still here", version)
        client.disconnect()


@check
def a_client_that_stops_beating_is_closed_and_told_why(place):
    client = Client(place, heartbeats=(HEART_BEAT_MS, 0))
    transport = client.connection.transport
    transmit = transport.transmit
    # A heart-beat is a frame without command.
    transport.transmit = lambda frame: transmit(frame) if frame.cmd else None
    error = client.error()
    same(error.headers["message"], "heart-beat missing")
    client.wait_gone()


@check
def without_heart_beats_silence_is_fine(place):
    client = Client(place, heartbeats=(0, 0))
    time.sleep(HEART_BEAT_MS / 1000 * 3)
    same(client.connection.is_connected(), True)
    same(client.heart_beats, 0)
    client.disconnect()


@check
def ack_auto_settles_on_delivery(place):
    for version in VERSIONS:
        client, name = Client(place, version), f"p.auto-{version}"
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", "x")
        message = client.receive()
        same("ack" in message.headers, False, "no ack header in auto mode")
        wait_until(lambda: waiting(place, name) == 0, "the message is settled")
        client.disconnect()


@check
def ack_client_covers_all_before(place):
    for version in VERSIONS:
        client, name = Client(place, version), f"p.client-{version}"
        client.subscribe(f"/queue/{name}", ack="client")
        for number in range(5):
            client.send(f"/queue/{name}", str(number))
        messages = [client.receive() for _ in range(5)]
        client.ack_confirmed(messages[2])
        same(waiting(place, name), 2, version)
        client.drop()
        again = Client(place, version)
        again.subscribe(f"/queue/{name}", ack="client")
        redelivered = [again.receive() for _ in range(2)]
        same([message.body for message in redelivered], ["3", "4"], version)
        same([m.headers.get("redelivered") for m in redelivered], ["true", "true"], version)
        again.ack_confirmed(redelivered[1])
        same(waiting(place, name), 0, version)
        again.disconnect()


@check
def ack_individual_covers_one(place):
    for version in LATER_VERSIONS:
        client, name = Client(place, version), f"p.individual-{version}"
        client.subscribe(f"/queue/{name}", ack="client-individual")
        for number in range(4):
            client.send(f"/queue/{name}", str(number))
        messages = [client.receive() for _ in range(4)]
        client.ack_confirmed(messages[2])
        same(waiting(place, name), 3, version)
        client.drop()
        again = Client(place, version)
        again.subscribe(f"/queue/{name}", ack="client-individual")
        same(again.bodies(3), ["0", "1", "3"], version)
        again.disconnect()


@check
def transactions_take_effect_at_commit(place):
    for version in VERSIONS:
        client, name = Client(place, version), f"p.commit-{version}"
        other = Client(place, version)
        other.subscribe(f"/queue/{name}")
        client.connection.begin("t1")
        for number in range(3):
            client.send(f"/queue/{name}", str(number), transaction="t1")
        same(other.is_quiet(), True, "nothing before the commit")
        client.connection.commit("t1")
        same(other.bodies(3), ["0", "1", "2"], version)
        client.disconnect()
        other.disconnect()


@check
def transactions_can_be_aborted(place):
    for version in VERSIONS:
        client, name = Client(place, version), f"p.abort-{version}"
        client.subscribe(f"/queue/{name}")
        client.connection.begin("t1")
        client.send(f"/queue/{name}", "never", transaction="t1")
        client.connection.abort("t1")
        client.send(f"/queue/{name}", "after")
        same(client.receive().body, "after", version)
        same(client.is_quiet(), True, version)
        client.disconnect()


@check
def acks_in_transactions(place):
    for version in VERSIONS:
        client, name = Client(place, version), f"p.ack-tx-{version}"
        client.subscribe(f"/queue/{name}", ack="client")
        client.send(f"/queue/{name}", "in")
        message = client.receive()
        client.connection.begin("t1")
        client.send(f"/queue/{name}.out", "out", transaction="t1")
        client.ack_confirmed(message, transaction="t1")
        same(waiting(place, name), 1, "not before the commit")
        client.connection.abort("t1")
        client.connection.begin("t2")
        client.send(f"/queue/{name}.out", "out", transaction="t2")
        client.ack_confirmed(message, transaction="t2")
        receipt = client.new_receipt()
        client.connection.commit("t2", headers={"receipt": receipt})
        client.wait_receipt(receipt)
        same(waiting(place, name), 0, "after the commit")
        same(waiting(place, f"{name}.out"), 1, "sent once")
        client.disconnect()


@check
def a_transaction_of_a_lost_client_is_undone(place):
    client, name = Client(place), "p.lost-tx"
    client.subscribe(f"/queue/{name}", ack="client-individual")
    client.send(f"/queue/{name}", "in")
    message = client.receive()
    client.connection.begin("t1")
    client.send(f"/queue/{name}.out", "out", transaction="t1")
    client.ack_confirmed(message, transaction="t1")
    client.drop()
    again = Client(place)
    again.subscribe(f"/queue/{name}")
    message = again.receive()
    same((message.body, message.headers.get("redelivered")), ("in", "true"))
    same(waiting(place, f"{name}.out"), 0, "nothing was sent")


@check
def receipts_say_how_safe_a_message_is(place):
    for version in VERSIONS:
        client = Client(place, version)
        same(client.send("/queue/p.level", "x").get("ack-level"), "memory", version)
        same(client.send("/queue/p.level", "x", persistent="true").get("ack-level"), "synced", version)
        client.disconnect()


@check
def binary_bodies(place):
    body = bytes(range(256)) * 4 + b"\0\0\n\n\0"
    for version in VERSIONS:
        client = Client(place, version, text=False)
        client.subscribe(f"/queue/p.binary-{version}")
        client.send(f"/queue/p.binary-{version}", body)
        message = client.receive()
        same(message.body, body, version)
        same(message.headers["content-length"], str(len(body)), version)
        client.disconnect()


@check
def empty_body(place):
    for version in VERSIONS:
        client = Client(place, version, text=False)
        client.subscribe(f"/queue/p.empty-{version}")
        client.send(f"/queue/p.empty-{version}", "")
        same(client.receive().body, b"", version)
        client.disconnect()


@check
def escapes_in_headers(place):
    client = Client(place, "1.2")
    client.subscribe("/queue/p.escapes")
    value = "a:b\\c\nd\re\\n\\\\"
    client.send("/queue/p.escapes", "x", odd=value)
    same(client.receive().headers["odd"], value)
    client = Client(place, "1.1")
    client.subscribe("/queue/p.escapes-1.1")
    value = "a:b\\c\nd\\n"
    client.send("/queue/p.escapes-1.1", "x", odd=value)
    same(client.receive().headers["odd"], value)


@check
def request_and_reply_by_a_temporary_queue(place):
    for version in VERSIONS:
        service, asker = Client(place, version), Client(place, version)
        requests = f"/queue/p.requests-{version}"
        service.subscribe(requests)
        asker.subscribe("/temp-queue/answers", id="answers")
        asker.send(requests, "question", **{"reply-to": "/temp-queue/answers"})
        question = service.receive()
        reply_to = question.headers["reply-to"]
        holds(reply_to.startswith("/queue/temp."), "the reply address works for others")
        service.send(reply_to, "answer")
        answer = asker.receive()
        same((answer.body, answer.headers["subscription"]), ("answer", "answers"), version)
        same(answer.headers["destination"], "/temp-queue/answers", version)
        service.disconnect()
        asker.disconnect()


@check
def a_reply_address_needs_no_subscription(place):
    service, asker = Client(place), Client(place)
    service.subscribe("/queue/p.requests-implied")
    asker.send("/queue/p.requests-implied", "question", **{"reply-to": "/temp-queue/mine"})
    service.send(service.receive().headers["reply-to"], "answer")
    answer = asker.receive()
    same((answer.body, answer.headers["subscription"]), ("answer", "/temp-queue/mine"))


@check
def temporary_queues_are_read_by_their_owner_only(place):
    owner, thief = Client(place), Client(place)
    service = Client(place)
    service.subscribe("/queue/p.requests-theft")
    owner.send("/queue/p.requests-theft", "q", **{"reply-to": "/temp-queue/mine"})
    address = service.receive().headers["reply-to"]
    thief.connection.subscribe(address, id="s")
    same(thief.error().headers["message"], "access refused")
    service.send(address, "for the owner")
    same(owner.receive().body, "for the owner")


@check
def temporary_queues_end_with_their_connection(place):
    owner, service = Client(place), Client(place)
    service.subscribe("/queue/p.requests-end")
    owner.send("/queue/p.requests-end", "q", **{"reply-to": "/temp-queue/mine"})
    name = service.receive().headers["reply-to"].removeprefix("/queue/")
    same(consumers(place, name), 1, "it is subscribed to")
    owner.disconnect()
    wait_until(lambda: consumers(place, name) == 0, "the temporary queue ends")
    same(waiting(place, name), 0)


@check
def prefetch_count_limits_what_is_unacknowledged(place):
    client = Client(place)
    for number in range(10):
        client.send("/queue/p.prefetch", str(number))
    client.subscribe("/queue/p.prefetch", ack="client-individual", **{"prefetch-count": "3"})
    messages = [client.receive() for _ in range(3)]
    same(client.is_quiet(), True, "no fourth message")
    client.ack_confirmed(messages[0])
    same(client.receive().body, "3")
    same(client.is_quiet(), True, "one for one")


@check
def rejected_messages_come_again_and_end_as_dead_letters(place):
    for version in LATER_VERSIONS:
        client, name = Client(place, version), f"p.dead-{version}"
        client.subscribe(f"/queue/{name}", ack="client-individual")
        client.send(f"/queue/{name}", "poison", kind="bad")
        for attempt in range(1, 6):
            message = client.receive()
            same(message.body, "poison", f"try {attempt}")
            same(message.headers.get("redelivered") == "true", attempt > 1, f"try {attempt}")
            client.nack(message)
        same(client.is_quiet(), True, "no sixth try")
        letters = place.rest(f"/api/v1/dead?from={name}")["letters"]
        same(len(letters), 1, version)
        same((letters[0]["body"], letters[0]["from"], letters[0]["tries"]), ("poison", name, 5))
        same(letters[0]["headers"]["kind"], "bad")
        same(waiting(place, name), 0)
        client.disconnect()


@check
def a_rejected_message_goes_to_somebody_else(place):
    first, second = Client(place), Client(place)
    first.subscribe("/queue/p.elsewhere", ack="client-individual")
    second.subscribe("/queue/p.elsewhere", ack="client-individual")
    first.send("/queue/p.elsewhere", "x")
    first.nack(first.receive())
    again = second.receive()
    same((again.body, again.headers.get("redelivered")), ("x", "true"))


@check
def topics_go_to_every_subscriber(place):
    clients = [Client(place, version) for version in VERSIONS for _ in range(2)]
    for client in clients:
        client.subscribe("/topic/p.news")
    sender = Client(place)
    for number in range(10):
        sender.send("/topic/p.news", str(number))
    for client in clients:
        same(client.bodies(10), [str(number) for number in range(10)], client.version)
    late = Client(place)
    late.subscribe("/topic/p.news")
    same(late.is_quiet(), True, "a topic keeps nothing for those who come late")


@check
def a_queue_keeps_messages_until_somebody_comes(place):
    sender = Client(place)
    for number in range(10):
        sender.send("/queue/p.keeps", str(number))
    sender.disconnect()
    late = Client(place)
    late.subscribe("/queue/p.keeps")
    same(late.bodies(10), [str(number) for number in range(10)])


@check
def two_subscribers_take_turns(place):
    first, second, sender = Client(place), Client(place), Client(place)
    first.subscribe("/queue/p.turns")
    second.subscribe("/queue/p.turns")
    for number in range(20):
        sender.send("/queue/p.turns", str(number))
    same(first.bodies(10), [str(number) for number in range(0, 20, 2)])
    same(second.bodies(10), [str(number) for number in range(1, 20, 2)])


@check
def unsubscribe_while_messages_flow_loses_nothing(place):
    sender, destination = Client(place), "/queue/p.flow"
    stop = threading.Event()
    sent = []

    def send():
        while not stop.is_set():
            sender.connection.send(destination, str(len(sent)))
            sent.append(str(len(sent)))

    got = []
    client = Client(place)
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    for round_number in range(20):
        client.subscribe(destination, id=f"s{round_number}")
        got.append(client.receive().body)
        client.unsubscribe(id=f"s{round_number}")
        while not client.messages.empty():
            got.append(client.messages.get().body)
    stop.set()
    thread.join()
    holds(sender.send(destination, "last"), "the sender was not refused")
    sent.append("last")
    client.subscribe(destination, id="rest")
    while len(got) < len(sent):
        got.append(client.receive().body)
    same(sorted(got), sorted(sent), "every message exactly once")


@check
def after_the_receipt_of_unsubscribe_nothing_comes(place):
    client = Client(place)
    client.subscribe("/queue/p.over")
    client.unsubscribe()
    client.send("/queue/p.over", "x")
    same(client.is_quiet(), True)
    same(waiting(place, "p.over"), 1, "it waits for somebody else")


@check
def large_body(place):
    body = bytes(range(256)) * (8 * 1024 * 1024 // 256)
    client = Client(place, text=False)
    client.subscribe("/queue/p.large")
    client.send("/queue/p.large", body, persistent="true")
    same(client.receive().body == body, True, "8 MiB arrive as they were")


@check
def too_many_subscriptions_are_refused(place):
    client = Client(place)
    for number in range(SUBSCRIPTIONS_MAX):
        client.subscribe(f"/queue/p.many-{number}", id=str(number))
    client.unsubscribe(id="0")
    client.subscribe("/queue/p.many-again", id="again")
    client.connection.subscribe("/queue/p.many-more", id="more")
    error = client.error()
    same(error.headers["message"], "too many subscriptions")
    holds(str(SUBSCRIPTIONS_MAX) in error.body, "it says how many are allowed")
    client.wait_gone()


@check
def messages_of_one_sender_keep_their_order(place):
    sender, receiver = Client(place), Client(place)
    receiver.subscribe("/queue/p.order")
    for number in range(2000):
        sender.connection.send("/queue/p.order", str(number))
    same(receiver.bodies(2000), [str(number) for number in range(2000)])


@check
def durable_and_transient_messages_keep_their_order(place):
    sender, receiver = Client(place), Client(place)
    for number in range(100):
        kind = {"persistent": "true"} if number % 3 == 0 else {}
        sender.connection.send("/queue/p.mixed", str(number), headers=kind)
    receiver.subscribe("/queue/p.mixed")
    same(receiver.bodies(100), [str(number) for number in range(100)])


@check
def an_error_says_what_is_wrong_and_closes(place):
    client = Client(place)
    client.connection.send("/nowhere/x", "lost", headers={"receipt": "mine"})
    error = client.error()
    holds("/nowhere/x" in error.body, f"it names the destination: {error.body}")
    same(error.headers["receipt-id"], "mine")
    client.wait_gone()


if __name__ == "__main__":
    main()
