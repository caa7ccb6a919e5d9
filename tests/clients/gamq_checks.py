"""A plain gamq client, as the published ones are, and what it must see byte for byte.

It writes command, body and final full stop separately, leaves Nagle's algorithm on, and reads exactly
eight bytes for an acknowledgement.
"""

import socket
import time

from checks import TIMEOUT_SECONDS, check, holds, main, open_tcp, same, wait_until

PUBACK = b"PUBACK\n\n"
# Long enough to notice an answer that must not come.
QUIET_SECONDS = 0.2


class Client:
    """One connection over TCP."""

    def __init__(self, place):
        self.socket = open_tcp(place.host, place.gamq_port)

    def write(self, data):
        self.socket.sendall(data)

    def read(self, count):
        """Exactly so many bytes; fewer if the server closes the connection."""
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                break
            data += piece
        return data

    def read_until(self, end):
        data = b""
        while not data.endswith(end):
            piece = self.socket.recv(1)
            if not piece:
                break
            data += piece
        return data

    def publish(self, name, body):
        self.write(b"PUB " + name + b"\r\n")
        self.write(body)
        self.write(b".\r\n")

    def set_ack(self):
        self.write(b"SETACK on\r\n")

    def ping(self):
        self.write(b"PINGREQ\r\n")
        return self.read(9)

    def subscribe(self, name):
        self.write(b"SUB " + name + b"\r\n")
        same(self.ping(), b"PINGRESP\n", "ping after SUB")

    def delivery(self):
        data = self.read_until(b"\r\n.\r\n")
        return data[: -len(b"\r\n.\r\n")]

    def is_quiet(self):
        """Whether nothing comes for a while."""
        self.socket.settimeout(QUIET_SECONDS)
        try:
            self.socket.recv(1)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_SECONDS)

    def close(self):
        self.socket.close()


class Datagrams:
    """One socket over UDP."""

    def __init__(self, place):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect((place.host, place.gamq_port))
        self.socket.settimeout(TIMEOUT_SECONDS)

    def send(self, *datagrams):
        for datagram in datagrams:
            self.socket.send(datagram)

    def receive(self):
        return self.socket.recv(65536)

    def is_quiet(self):
        self.socket.settimeout(QUIET_SECONDS)
        try:
            self.socket.recv(65536)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_SECONDS)


def queues(place):
    """The queues by name, as REST shows them."""
    return {queue["name"]: queue for queue in place.rest("/api/v1/queues")["queues"]}


@check
def delivery_is_body_and_end(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.delivery")
    publisher.publish(b"g.delivery", b"0\n")
    same(subscriber.read(7), b"0\n\r\n.\r\n")
    publisher.publish(b"g.delivery", b"two\r\nlines\r\n")
    same(subscriber.read(17), b"two\r\nlines\r\n\r\n.\r\n")
    same(subscriber.is_quiet(), True, "nothing else comes")


@check
def no_dots_are_stuffed(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.dots")
    publisher.publish(b"g.dots", b"..\r\n.x\r\nx.\r\n. \r\n")
    same(subscriber.delivery(), b"..\r\n.x\r\nx.\r\n. \r\n")


@check
def lines_end_in_lf_or_crlf(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.write(b"SUB g.lines\nPINGREQ\n")
    same(subscriber.read(9), b"PINGRESP\n")
    publisher.write(b"PUB g.lines\nbare\n.\n")
    same(subscriber.delivery(), b"bare\n")


@check
def empty_body(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.empty")
    publisher.write(b"PUB g.empty\r\n.\r\n")
    same(subscriber.read(5), b"\r\n.\r\n")


@check
def binary_body(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.binary")
    body = bytes(range(256)) + b"\n"
    publisher.publish(b"g.binary", body)
    same(subscriber.delivery(), body)


@check
def puback_is_eight_bytes(place):
    client = Client(place)
    client.set_ack()
    client.publish(b"g.puback", b"x\n")
    same(client.read(8), PUBACK)
    client.write(b"SETACK off\r\n")
    client.publish(b"g.puback", b"y\n")
    same(client.is_quiet(), True, "no acknowledgement once it is off")
    same(client.ping(), b"PINGRESP\n")


@check
def no_puback_unless_asked_for(place):
    client = Client(place)
    client.publish(b"g.no-puback", b"x\n")
    same(client.ping(), b"PINGRESP\n", "the first answer is that to the ping")


@check
def acknowledged_publishes_do_not_stall(place):
    """Three small writes per message stall for 40 ms each unless the server acknowledges quickly."""
    client = Client(place)
    same(client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 0, "Nagle is on")
    client.set_ack()
    start = time.monotonic()
    for number in range(50):
        client.publish(b"g.quick", b"%d\n" % number)
        same(client.read(8), PUBACK)
    seconds = time.monotonic() - start
    holds(seconds < 1, f"50 acknowledged publishes took {seconds:.2f} s: 40 ms each is a stall")


@check
def ping(place):
    client = Client(place)
    same(client.ping(), b"PINGRESP\n")
    client.write(b"PINGREQ with more words\r\n")
    same(client.read(9), b"PINGRESP\n")


@check
def unknown_command(place):
    client = Client(place)
    client.write(b"FROBNICATE x\r\n")
    same(client.read(21), b"Unrecognised command\n")
    client.write(b"PUBLISH x\r\n")
    same(client.read(21), b"Unrecognised command\n")
    same(client.ping(), b"PINGRESP\n", "and the session goes on")


@check
def commands_in_any_case(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.write(b"sUb g.case\r\npingreq\r\n")
    same(subscriber.read(9), b"PINGRESP\n")
    publisher.write(b"setack ON\r\n")
    for command in (b"pub", b"Pub", b"PUB", b"pUB"):
        publisher.write(command + b" g.case\r\n" + command + b"\n.\r\n")
        same(publisher.read(8), PUBACK)
        same(subscriber.delivery(), command + b"\n")
    publisher.write(b"SetAck Off\r\nPingReq\r\n")
    same(publisher.read(9), b"PINGRESP\n")
    publisher.write(b"disconnect\r\n")
    same(publisher.read(1), b"", "closed")


@check
def names_keep_their_case(place):
    upper, lower, publisher = Client(place), Client(place), Client(place)
    upper.subscribe(b"g.Name")
    lower.subscribe(b"g.name")
    publisher.publish(b"g.Name", b"upper\n")
    same(upper.delivery(), b"upper\n")
    same(lower.is_quiet(), True)


@check
def words_after_the_name_are_ignored(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.write(b"SUB \t g.words   and more\r\n")
    same(subscriber.ping(), b"PINGRESP\n")
    publisher.write(b"  PUB   g.words 5 and more\r\nx\r\n.\r\n")
    same(subscriber.delivery(), b"x\r\n")


@check
def blank_lines_are_ignored(place):
    client = Client(place)
    client.write(b"\r\n\n   \r\n\t\nPINGREQ\r\n\r\n")
    same(client.read(9), b"PINGRESP\n", "no answer to blank lines")
    same(client.ping(), b"PINGRESP\n")


@check
def missing_arguments_are_named(place):
    for command in (b"SUB", b"SETACK", b"CLOSE"):
        client = Client(place)
        client.write(command + b"\r\n")
        same(client.read_until(b"\n"), command + b" needs a word after it\n")
        same(client.ping(), b"PINGRESP\n", f"after {command}")


@check
def a_publish_without_name_takes_its_body_with_it(place):
    client = Client(place)
    client.write(b"PUB\r\nDISCONNECT\r\n.\r\n")
    same(client.read_until(b"\n"), b"PUB needs a word after it\n")
    same(client.ping(), b"PINGRESP\n", "the body was not run")
    client.set_ack()
    client.write(b"PUB\r\nx\r\n.\r\n")
    same(client.read(8), b"PUBNACK\n", "eight bytes, so that the client stays in step")
    client.publish(b"g.step", b"x\n")
    same(client.read(8), PUBACK)


@check
def a_bad_setack_is_named(place):
    client = Client(place)
    client.write(b"SETACK perhaps\r\n")
    same(client.read_until(b"\n"), b"SETACK: on or off is expected\n")
    same(client.ping(), b"PINGRESP\n")


@check
def bodies_are_not_commands(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.not-commands")
    publisher.set_ack()
    publisher.publish(b"g.not-commands", b"CLOSE g.not-commands\r\nDISCONNECT\r\nPUB x\r\n")
    same(publisher.read(8), PUBACK)
    same(subscriber.delivery(), b"CLOSE g.not-commands\r\nDISCONNECT\r\nPUB x\r\n")


@check
def disconnect_closes_the_socket_after_the_answers(place):
    client = Client(place)
    client.set_ack()
    client.write(b"PUB g.disconnect\r\nx\r\n.\r\nPINGREQ\r\nDISCONNECT\r\n")
    same(client.read(100), PUBACK + b"PINGRESP\n")


@check
def close_ends_a_queue_but_not_its_subscribers(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.close")
    publisher.publish(b"g.close", b"before\n")
    same(subscriber.delivery(), b"before\n")
    publisher.write(b"CLOSE g.close\r\n")
    same(publisher.ping(), b"PINGRESP\n", "CLOSE answers nothing")
    publisher.publish(b"g.close", b"after\n")
    same(publisher.ping(), b"PINGRESP\n")
    same(subscriber.is_quiet(), True, "its subscriber is removed")
    same(subscriber.ping(), b"PINGRESP\n", "whose socket stays open")
    subscriber.write(b"SUB g.close\r\n")
    same(subscriber.delivery(), b"after\n", "and who may subscribe again")


@check
def close_drops_what_is_pending(place):
    client = Client(place)
    client.set_ack()
    client.publish(b"g.pending", b"gone\n")
    same(client.read(8), PUBACK)
    client.write(b"CLOSE g.pending\r\nCLOSE g.never-there\r\n")
    client.publish(b"g.pending", b"new\n")
    same(client.read(8), PUBACK)
    subscriber = Client(place)
    subscriber.write(b"SUB g.pending\r\n")
    same(subscriber.delivery(), b"new\n")


@check
def the_last_subscriber_leaving_keeps_what_is_pending(place):
    first, publisher = Client(place), Client(place)
    first.subscribe(b"g.leaving")
    publisher.set_ack()
    publisher.publish(b"g.leaving", b"0\n")
    same(publisher.read(8), PUBACK)
    same(first.delivery(), b"0\n")
    first.write(b"DISCONNECT\r\n")
    same(first.read(1), b"")
    for number in range(1, 6):
        publisher.publish(b"g.leaving", b"%d\n" % number)
        same(publisher.read(8), PUBACK)
    second = Client(place)
    second.write(b"SUB g.leaving\r\n")
    for number in range(1, 6):
        same(second.delivery(), b"%d\n" % number)


@check
def what_waits_is_delivered_in_order(place):
    publisher, subscriber = Client(place), Client(place)
    publisher.set_ack()
    for number in range(200):
        publisher.publish(b"g.order", b"%d\n" % number)
        same(publisher.read(8), PUBACK)
    subscriber.write(b"SUB g.order\r\n")
    for number in range(200):
        same(subscriber.delivery(), b"%d\n" % number)


@check
def two_subscribers_of_a_queue_take_turns(place):
    first, second, publisher = Client(place), Client(place), Client(place)
    first.subscribe(b"g.turns")
    second.subscribe(b"g.turns")
    publisher.set_ack()
    for number in range(10):
        publisher.publish(b"g.turns", b"%d\n" % number)
        same(publisher.read(8), PUBACK)
    odd = [first.delivery() for _ in range(5)]
    even = [second.delivery() for _ in range(5)]
    same(sorted(odd + even), [b"%d\n" % number for number in range(10)])
    same(sorted([odd, even]), [[b"%d\n" % n for n in range(s, 10, 2)] for s in (0, 1)])


@check
def a_topic_goes_to_everyone(place):
    first, second, publisher = Client(place), Client(place), Client(place)
    first.subscribe(b"topic:g.news")
    second.subscribe(b"topic:g.news")
    publisher.publish(b"topic:g.news", b"extra\n")
    same(first.delivery(), b"extra\n")
    same(second.delivery(), b"extra\n")
    third = Client(place)
    third.subscribe(b"topic:g.news")
    same(third.is_quiet(), True, "a topic keeps nothing for those who come late")


@check
def a_topic_is_not_the_queue_of_that_name(place):
    queue, publisher = Client(place), Client(place)
    queue.subscribe(b"g.both")
    publisher.publish(b"topic:g.both", b"topic\n")
    publisher.publish(b"g.both", b"queue\n")
    same(queue.delivery(), b"queue\n")


@check
def metrics_are_subscribed_without_prefix(place):
    client = Client(place)
    client.subscribe(b"metrics")
    same(client.ping(), b"PINGRESP\n", "accepted")
    holds("metrics" not in queues(place), "no queue of that name is made")


@check
def help_lists_every_command(place):
    client = Client(place)
    client.write(b"HELP\r\n")
    text = client.read_until(b"DISCONNECT: ends the session\n")
    lines = text.split(b"\n\t")
    same(lines[0], b"Available commands:")
    same(
        [line.split(b":")[0].split(b" ")[0] for line in lines[1:]],
        [b"HELP", b"PUB", b"SUB", b"PINGREQ", b"SETACK", b"CLOSE", b"DISCONNECT"],
    )
    holds(b"topic:<name>" in text, "it says how topics are named")
    same(client.ping(), b"PINGRESP\n", "nothing follows the last line end")


@check
def commands_in_any_pieces(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.pieces")
    publisher.set_ack()
    command = b"PUB g.pieces\r\na\n.b\r\n.\r\n"
    publisher.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for cut in range(1, len(command)):
        publisher.write(command[:cut])
        publisher.write(command[cut:])
        same(publisher.read(8), PUBACK, f"cut at {cut}")
        same(subscriber.delivery(), b"a\n.b\r\n", f"cut at {cut}")


@check
def many_commands_in_one_write(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.at-once")
    publisher.write(b"SETACK on\r\n" + b"".join(b"PUB g.at-once\r\n%d\n.\r\n" % n for n in range(500)))
    same(publisher.read(8 * 500), PUBACK * 500)
    same([subscriber.delivery() for _ in range(500)], [b"%d\n" % n for n in range(500)])


@check
def a_client_that_vanishes_in_a_body_publishes_nothing(place):
    subscriber, broken, publisher = Client(place), Client(place), Client(place)
    subscriber.subscribe(b"g.vanish")
    broken.write(b"PUB g.vanish\r\nhalf\r\n")
    broken.close()
    publisher.publish(b"g.vanish", b"whole\n")
    same(subscriber.delivery(), b"whole\n")
    same(subscriber.is_quiet(), True)


@check
def a_half_closed_client_is_answered(place):
    """`printf ... | nc` shuts its side down at once and still wants the answer."""
    client = Client(place)
    client.set_ack()
    client.write(b"PUB g.half-closed\r\nx\r\n.\r\nPINGREQ\r\n")
    client.socket.shutdown(socket.SHUT_WR)
    same(client.read(100), PUBACK + b"PINGRESP\n")


@check
def udp_publish_in_three_datagrams(place):
    subscriber, sender = Client(place), Datagrams(place)
    subscriber.subscribe(b"u.publish")
    sender.send(b"PUB u.publish\r\n", b"0\n", b".\r\n")
    same(subscriber.read(7), b"0\n\r\n.\r\n")
    sender.send(b"PUB u.publish\r\n", b"no ", b"line ", b"end", b".\r\n")
    same(subscriber.delivery(), b"no line end")


@check
def udp_publish_in_one_datagram(place):
    subscriber, sender = Client(place), Datagrams(place)
    subscriber.subscribe(b"u.one")
    sender.send(b"PUB u.one\r\na\n.\r\npub u.one\nb\n.\n")
    same(subscriber.delivery(), b"a\n")
    same(subscriber.delivery(), b"b\n")


@check
def udp_acknowledges(place):
    sender = Datagrams(place)
    sender.send(b"SETACK on\r\n")
    for number in range(20):
        sender.send(b"PUB u.acknowledged\r\n", b"%d\n" % number, b".\r\n")
        same(sender.receive(), PUBACK)
    sender.send(b"SETACK off\r\n", b"PUB u.acknowledged\r\n", b"x\n", b".\r\n")
    same(sender.is_quiet(), True)


@check
def udp_subscribe(place):
    subscriber, publisher = Datagrams(place), Client(place)
    subscriber.send(b"SUB u.subscribe\r\n", b"PINGREQ\r\n")
    same(subscriber.receive(), b"PINGRESP\n")
    publisher.publish(b"u.subscribe", b"0\n")
    same(subscriber.receive(), b"0\n\r\n.\r\n")
    publisher.publish(b"u.subscribe", b"1\n")
    same(subscriber.receive(), b"1\n\r\n.\r\n")


@check
def udp_senders_do_not_mix(place):
    subscriber, one, two = Client(place), Datagrams(place), Datagrams(place)
    subscriber.subscribe(b"u.mix")
    one.send(b"PUB u.mix\r\n")
    two.send(b"PUB u.mix\r\n")
    one.send(b"one\n")
    two.send(b"two\n", b".\r\n")
    same(subscriber.delivery(), b"two\n")
    one.send(b".\r\n")
    same(subscriber.delivery(), b"one\n")


@check
def udp_answers_are_never_larger_than_requests(place):
    requests = [b"HELP\r\n", b"X\r\n", b"SUB\r\n", b"CLOSE\r\n", b"SETACK\r\n", b"PUB\r\n.\r\n", b"PINGREQ", b"\xff\r\n"]
    for request in requests:
        sender = Datagrams(place)
        sender.send(request)
        holds(sender.is_quiet(), f"{request!r} was answered with more bytes than it has")
    sender = Datagrams(place)
    sender.send(b"a long command that does not exist\r\n")
    same(sender.receive(), b"Unrecognised command\n")
    sender.send(b"PINGREQ\r\n")
    same(sender.receive(), b"PINGRESP\n")
    sender.send(b"HELP" + b" " * 2000 + b"\r\n")
    holds(sender.is_quiet(), "HELP is for TCP only, however long the request")


@check
def udp_disconnect_ends_the_subscription(place):
    leaver, stayer, publisher = Datagrams(place), Client(place), Client(place)
    leaver.send(b"SUB u.leave\r\n", b"PINGREQ\r\n")
    same(leaver.receive(), b"PINGRESP\n")
    leaver.send(b"DISCONNECT\r\n")
    wait_until(lambda: queues(place)["u.leave"]["consumers"] == 0, "the subscription ends")
    publisher.publish(b"u.leave", b"kept\n")
    stayer.write(b"SUB u.leave\r\n")
    same(stayer.delivery(), b"kept\n")


@check
def large_body(place):
    subscriber, publisher = Client(place), Client(place)
    subscriber.subscribe(b"g.large")
    body = b"0123456789abcde\n" * (8 * 1024 * 1024 // 16)
    publisher.set_ack()
    publisher.publish(b"g.large", body)
    same(publisher.read(8), PUBACK)
    same(subscriber.read(len(body) + 5) == body + b"\r\n.\r\n", True, "8 MiB arrive as they were")


if __name__ == "__main__":
    main()
