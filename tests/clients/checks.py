"""Runs named checks against a broker and says how many passed.

A check is a function marked with `@check`; it gets the addresses as `Place` and compares with `same` or
`holds`. With `--flip` the first comparison of every check is turned round, so that each of them
must fail: a check that passes even then proves nothing.
"""

import argparse
import concurrent.futures
import json
import os
import socket
import sys
import threading
import time
import traceback
import urllib.request

# How long anything may take; far more than it should, for the machine may be busy.
TIMEOUT_SECONDS = 10
CHECKS_AT_ONCE = 4

_checks = []
_local = threading.local()


class CheckFailed(Exception):
    """A comparison did not hold."""


class Place:
    """Where the broker is."""

    def __init__(self, host, stomp_port, gamq_port, http_port, token, authority):
        self.host = host
        self.stomp_port = stomp_port
        self.gamq_port = gamq_port
        self.http_port = http_port
        self.token = token
        # Who vouches for the broker, if STOMP is encrypted.
        self.authority = authority

    def rest(self, path):
        """Asks the REST interface and gives the answer as JSON."""
        request = urllib.request.Request(
            f"http://{self.host}:{self.http_port}{path}",
            headers={"Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)


def check(function):
    """Marks a check; its name is the function's."""
    _checks.append(function)
    return function


def holds(condition, what):
    """Fails unless the condition holds; in a flipped check, the first time, if it does."""
    flipped = _local.flip
    _local.flip = False
    if bool(condition) == flipped:
        raise CheckFailed(("flipped: " if flipped else "") + what)


def same(actual, expected, what=""):
    """Fails unless both are equal."""
    holds(actual == expected, f"{what} expected {short(expected)}, got {short(actual)}".strip())


def short(value):
    """A value for an error message."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"


def wait_until(condition, what, seconds=TIMEOUT_SECONDS):
    """Asks again and again until the condition holds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise CheckFailed(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def _run(function, place, flip):
    _local.flip = flip
    try:
        function(place)
        return None
    except CheckFailed as failure:
        return str(failure)
    except Exception:  # whatever a client library throws is a failure of the check
        return traceback.format_exc().strip()


def main():
    """Runs all checks, or those named, and ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--stomp", type=int, default=61613)
    parser.add_argument("--gamq", type=int, default=48879)
    parser.add_argument("--http", type=int, default=8000)
    parser.add_argument("--authority", help="a file; STOMP is encrypted then")
    parser.add_argument("--flip", action="store_true", help="turn the first comparison round")
    parser.add_argument("names", nargs="*", help="only these checks")
    arguments = parser.parse_args()
    # The token comes by the environment, where other users do not see it.
    token = os.environ.get("HIVEWIRE_TOKEN", "")
    place = Place(arguments.host, arguments.stomp, arguments.gamq, arguments.http, token, arguments.authority)
    known = {function.__name__ for function in _checks}
    unknown = set(arguments.names) - known
    if unknown:
        parser.error(f"no such check: {', '.join(sorted(unknown))}")
    chosen = [f for f in _checks if not arguments.names or f.__name__ in arguments.names]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(CHECKS_AT_ONCE) as pool:
        running = [(f.__name__, pool.submit(_run, f, place, arguments.flip)) for f in chosen]
        for name, result in running:
            failure = result.result()
            failed += failure is not None
            print(f"ok {name}" if failure is None else f"FAILED {name}: {failure}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed", flush=True)
    # Threads of client libraries must not keep the process.
    os._exit(1 if failed else 0)


def open_tcp(host, port):
    """A TCP connection that never waits without an end."""
    connection = socket.create_connection((host, port), TIMEOUT_SECONDS)
    connection.settimeout(TIMEOUT_SECONDS)
    return connection
