"""Write a Hivewire worker in Python: `src/worker.py` holds a class `Worker` derived from the one here.

If a method raises, everything that it did through the context is undone. A worker never waits, and
there is no clock, no network and no file: `time.time()`, `datetime.now()` and `open()` end the turn.
Use the context. What is printed goes to the worker's log.
"""

import json
from typing import Any, Dict, List, Optional, Tuple, Union

from componentize_py_types import Err
from wit_world.imports import life, messages, state, surroundings, types

Bytes = Union[str, bytes]
"""Text goes out as UTF-8."""

_KINDS = {
    types.Kind_Message: "message",
    types.Kind_Reply: "reply",
    types.Kind_TimedOut: "timed-out",
    types.Kind_Timer: "timer",
    types.Kind_ChildEnded: "child-ended",
}


class Failure(Exception):
    """What the host refused."""


class Message:
    """A message in a worker's hands."""

    body: bytes
    headers: Dict[str, str]
    kind: str
    """`message`; `reply` or `timed-out`, with `ticket`; `timer` or `child-ended`, with `name`."""
    ticket: Optional[int]
    """Names the ask that this answers."""
    name: Optional[str]
    """Of the timer or the child."""
    expects_reply: bool
    """Whether somebody waits for an answer."""
    tries: int
    """How often it was tried before without success."""

    def __init__(self, raw: types.Message, turn: int, index: int):
        value = getattr(raw.kind, "value", None)
        self.body = raw.body
        self.headers = dict(reversed(raw.headers))
        self.kind = _KINDS[type(raw.kind)]
        self.ticket = value if isinstance(value, int) else None
        self.name = value if isinstance(value, str) else None
        self.expects_reply = raw.expects_reply
        self.tries = raw.tries
        self._place = (turn, index)

    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class State:
    """Keys and values that survive restart, replacement and move. In a keyed stage they belong to
    the bucket of the messages in hand, otherwise to the worker."""

    def get(self, key: Bytes) -> Optional[bytes]:
        return state.get(_bytes(key))

    def get_text(self, key: Bytes) -> Optional[str]:
        value = self.get(key)
        return None if value is None else value.decode()

    def get_json(self, key: Bytes, default: Any = None) -> Any:
        value = self.get(key)
        return default if value is None else json.loads(value)

    def set(self, key: Bytes, value: Bytes) -> None:
        state.set(_bytes(key), _bytes(value))

    def set_json(self, key: Bytes, value: Any) -> None:
        self.set(key, json.dumps(value))

    def remove(self, key: Bytes) -> None:
        state.remove(_bytes(key))

    def scan(
        self, prefix: Bytes, pairs_max: int, after: Optional[Bytes] = None
    ) -> List[Tuple[bytes, bytes]]:
        """Keys that begin with `prefix` and their values, in order, from the first after `after`."""
        return state.scan(_bytes(prefix), None if after is None else _bytes(after), pairs_max)


class Context:
    """What a worker can do during a turn. Nothing leaves before the turn is committed."""

    def __init__(self) -> None:
        self.state = State()
        self._turn = 0

    def emit(self, output: str, body: Bytes, headers: Optional[Dict[str, str]] = None) -> None:
        """Sends to whatever this output of the stage is connected with."""
        messages.emit(output, _outgoing(body, headers))

    def send(self, address: str, body: Bytes, headers: Optional[Dict[str, str]] = None) -> None:
        """Sends to `flow/stage`, `flow/stage/3`, `queue:NAME` or `topic:NAME`. Outside the worker's
        own flow it needs a grant."""
        _host(messages.send, address, _outgoing(body, headers))

    def reply(self, to: Message, body: Bytes, headers: Optional[Dict[str, str]] = None) -> None:
        """Answers a message of this turn."""
        turn, index = to._place
        if turn != self._turn:
            raise Failure(
                "only a message of this turn can be answered so: keep its reply address"
            )
        _host(messages.reply, index, _outgoing(body, headers))

    def reply_address(self, to: Message) -> Optional[str]:
        """The address for an answer, for later or for a third worker. Whoever answers there copies
        the header `correlation-id` of the message."""
        turn, index = to._place
        return messages.reply_address(index) if turn == self._turn else None

    def ask(
        self, address: str, body: Bytes, timeout_ms: int, headers: Optional[Dict[str, str]] = None
    ) -> int:
        """Asks. The answer, or that none came in time, is a later message with this ticket."""
        return _host(messages.ask, address, _outgoing(body, headers), timeout_ms)

    def set_timer(self, name: str, after_ms: int, body: Bytes = b"") -> None:
        """Sets a timer, or sets it anew. It goes off once."""
        life.set_timer(name, after_ms, _bytes(body))

    def cancel_timer(self, name: str) -> None:
        life.cancel_timer(name)

    def spawn(self, name: str, args: Bytes = b"") -> None:
        """Starts a child that runs the same code. Its address is that of this worker, a stroke and
        its name."""
        _host(life.spawn, name, _bytes(args))

    def stop_child(self, name: str) -> None:
        life.stop_child(name)

    def end(self) -> None:
        """Ends this worker after the turn."""
        life.end()

    def log(self, line: str, level: str = "info") -> None:
        """Writes a line to the worker's log: `debug`, `info`, `warn` or `error`."""
        surroundings.log(surroundings.Level[level.upper()], line)

    def now(self) -> float:
        """Seconds since 1970."""
        return surroundings.now() / 1_000_000

    def random(self) -> int:
        """A random number of 64 bits."""
        return surroundings.random()

    def address(self) -> str:
        """The address of this worker."""
        return surroundings.address()


class Worker:
    """The code of a worker. Override `receive`, and the others as you need them."""

    def init(self, args: bytes, context: Context) -> None:
        """Called once, before anything else, with the arguments of the deployment."""

    def receive(self, message: Message, context: Context) -> None:
        """Handles one message."""
        raise NotImplementedError("write `receive`")

    def handle(self, messages: List[Message], context: Context) -> None:
        """Handles several messages, in order."""
        for message in messages:
            self.receive(message, context)

    def save(self) -> bytes:
        """Everything that the instance keeps in its memory. What is in the state does not belong
        here."""
        return b""

    def load(self, snapshot: bytes) -> None:
        """Takes over what was saved by this or the former version."""

    def stop(self, context: Context) -> None:
        """Called before the worker is stopped for good."""


def _bytes(value: Bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _outgoing(body: Bytes, headers: Optional[Dict[str, str]]) -> types.Outgoing:
    pairs = [(name, str(value)) for name, value in (headers or {}).items()]
    return types.Outgoing(_bytes(body), pairs)


def _host(function, *arguments):
    """Calls the host. What it refuses becomes an ordinary exception."""
    try:
        return function(*arguments)
    except Err as error:
        raise Failure(error.value) from None
