"""What the build puts around an author's `src/worker.py`: it exports the world of a worker."""

import io
import sys

import hivewire
import wit_world
import worker
from componentize_py_types import Err

_context = hivewire.Context()
_worker = worker.Worker()


class _Log(io.TextIOBase):
    """Takes what is printed to the worker's log, line by line."""

    def __init__(self, level):
        self._level = level
        self._begun = ""

    def writable(self):
        return True

    def write(self, text):
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            _context.log(line, self._level)
        return len(text)


def _reason(error):
    """An exception with its places, innermost last. It reads no file, as `traceback` would: there
    are none."""
    lines = [f"{type(error).__name__}: {error}"]
    place = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        if code.co_filename != __file__:
            lines.append(f"  {code.co_filename}:{place.tb_lineno} in {code.co_name}")
        place = place.tb_next
    return "\n".join(lines)


def _told(function, *arguments):
    """Runs the author's code. What it raises is told to the host as a text."""
    _context._turn += 1
    try:
        return function(*arguments)
    except Exception as error:
        raise Err(_reason(error)) from None


def _handle(raw_messages):
    turn = _context._turn
    messages = [hivewire.Message(raw, turn, index) for index, raw in enumerate(raw_messages)]
    _worker.handle(messages, _context)


class WitWorld(wit_world.WitWorld):
    def init(self, args):
        sys.stdout = _Log("info")
        sys.stderr = _Log("warn")
        _told(_worker.init, args, _context)

    def handle(self, messages):
        _told(_handle, messages)

    def save(self):
        return _told(lambda: hivewire._bytes(_worker.save()))

    def load(self, snapshot):
        _told(_worker.load, snapshot)

    def stop(self):
        _worker.stop(_context)
