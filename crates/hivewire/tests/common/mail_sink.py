"""A real mail server (aiosmtpd) that keeps nothing: each mail becomes a line of JSON on standard output.

The first line says where it listens. Driven by the tests of alerts.
"""

import argparse
import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


def say(value):
    print(json.dumps(value), flush=True)


class Sink:
    def __init__(self, refuse, is_always_encrypted):
        self.refuse = refuse
        self.is_always_encrypted = is_always_encrypted

    async def handle_RCPT(self, server, session, envelope, address, options):
        if self.refuse:
            say({"refused": address})
            return f"{self.refuse} nobody is called {address} here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        say(
            {
                "from": envelope.mail_from,
                "to": envelope.rcpt_tos,
                "encrypted": self.is_always_encrypted or session.ssl is not None,
                "user": getattr(session, "auth_data", None),
                "text": envelope.content.decode("utf-8"),
            }
        )
        return "250 taken"


def authenticator(user, password):
    def check(server, session, envelope, mechanism, data):
        given = (data.login.decode(), data.password.decode())
        if given == (user, password):
            return AuthResult(success=True, auth_data=user)
        say({"wrong_login": given[0]})
        return AuthResult(success=False, handled=False)

    return check


async def serve(arguments):
    context = None
    if arguments.tls != "none":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(arguments.certificate, arguments.key)
    options = {}
    if arguments.tls == "starttls":
        options.update(tls_context=context, require_starttls=True)
    if arguments.user:
        options.update(
            authenticator=authenticator(arguments.user, arguments.password),
            auth_required=True,
            auth_require_tls=arguments.tls == "starttls",
        )
    sink = Sink(arguments.refuse, arguments.tls == "tls")
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(sink, **options),
        "127.0.0.1",
        0,
        ssl=context if arguments.tls == "tls" else None,
    )
    say({"port": server.sockets[0].getsockname()[1]})
    # Whoever started this ends it by closing its standard input.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls", choices=["none", "starttls", "tls"], default="none")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--user")
    parser.add_argument("--password")
    parser.add_argument("--refuse", help="the code with which recipients are refused")
    asyncio.run(serve(parser.parse_args()))


main()
