#!/usr/bin/env python3
"""A client of ostler in Python, standard library only, written from docs/PROTOCOL.md alone.

    ostler_min.py -- COMMAND [ARGUMENT...]

finds or starts the broker, starts COMMAND as a session, prints what it prints as it comes, and exits with its code (128+n for signal n).
It shows the one rule that matters: a call that changes something keeps its key, whatever breaks on the way. The program `ostler` is looked
for on PATH, or is what the variable OSTLER names. If this client is ended, its session goes on: `ostler list` shows it.
"""

import base64
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import time


class Failed(Exception):
    """The broker said no."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error.get("data", {}).get("code")


class Unanswered(Exception):
    """The connection broke, or another broker answers than the record names."""


class Connection:
    """One connection, after hello."""

    def __init__(self):
        program = os.environ.get("OSTLER", "ostler")
        try:
            ensured = subprocess.run([program, "ensure", "--json"], stdout=subprocess.PIPE)
        except OSError as error:
            raise Failed({"message": "%s cannot be run (%s); set OSTLER to the program" % (program, error.strerror)}) from error
        document = json.loads(ensured.stdout)
        if ensured.returncode != 0:
            raise Failed({"message": document["error"]["message"], "data": document["error"]})
        with open(os.path.join(document["broker"]["root"], "broker.json"), encoding="utf-8") as file:
            record = json.load(file)
        kind, _, path = record["broker"]["endpoint"].partition(":")
        if kind != "unix":
            raise Failed({"message": "this example speaks to Unix sockets only"})
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(path)
        except OSError as error:
            raise Unanswered(str(error)) from error
        if hasattr(socket, "SO_PEERCRED"):
            size = struct.calcsize("3i")
            _, uid, _ = struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
            if uid != os.geteuid():
                raise Failed({"message": "the socket belongs to uid %d" % uid})
        self.file = self.socket.makefile("rwb")
        self.last_id = 0
        hello = self.call("hello", {
            "protocol": {"min": 1, "max": 1},
            "client": {"name": "ostler_min.py", "version": "1"},
            "token": record["token"],
            "as": "owner",
        })
        names = ("incarnation", "generation")
        if hello["root_id"] != record["root_id"] or any(hello["broker"][n] != record["broker"][n] for n in names):
            raise Unanswered("another broker answers than the record names")
        self.broker = hello["broker"]

    def call(self, method, params):
        """One request and its answer."""
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        try:
            self.file.write(json.dumps(request).encode() + b"\n")
            self.file.flush()
            while True:
                line = self.file.readline()
                if not line.endswith(b"\n"):
                    raise Unanswered("the broker closed the connection")
                answer = json.loads(line)
                if "method" in answer or answer["id"] not in (self.last_id, None):
                    continue
                if "error" in answer:
                    raise Failed(answer["error"])
                return answer["result"]
        except OSError as error:
            raise Unanswered(str(error)) from error


class Client:
    """Calls that survive the broker."""

    def __init__(self):
        self.connection = None

    def call(self, method, params, tries=5):
        """Calls until there is an answer. The parameters, and with them the key, stay the same."""
        for left in reversed(range(tries)):
            try:
                if self.connection is None:
                    self.connection = Connection()
                return self.connection.call(method, params)
            except Unanswered:
                self.connection = None
                if left == 0:
                    raise
            except Failed as error:
                if error.code not in ("draining", "unauthenticated") or left == 0:
                    raise
                self.connection = None


def new_key():
    """A UUIDv7 of this machine's time, which is the broker's."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(3 << 62) | 2 << 62
    text = "%032x" % value
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def arg(text):
    """ARG of the protocol: text, or base64 where the bytes are not UTF-8."""
    raw = os.fsencode(text)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(raw).decode()}


def pass_output(client, session):
    """Prints a session's output as it comes, to its end. What aged out before it was read is told, never passed over."""
    position = 0
    while True:
        read = client.call("session.read", {"session": session, "position": position})
        if read["lost_bytes"]:
            print("ostler_min.py: %d bytes of output have aged out here" % read["lost_bytes"], file=sys.stderr)
        for chunk in read["chunks"]:
            stream = sys.stdout if chunk["stream"] == "stdout" else sys.stderr
            stream.buffer.write(base64.b64decode(chunk["b64"]))
            stream.flush()
        if read["ended"]:
            return
        if read["next"] == position:
            # Nothing new: wait a moment for more, or for the end.
            try:
                client.call("session.wait", {"session": session, "for": "ended", "timeout_ms": 100})
            except Failed as error:
                if error.code != "timeout":
                    raise
        position = read["next"]


def code_of(ended):
    """The code to exit with, as a shell has it."""
    exit_ = ended["exit"] or {}
    name = exit_.get("signal", "")
    if name:
        return 128 + (int(getattr(signal, name, 0)) or int(name[3:]))
    return exit_.get("code", 1)


def main(words):
    """Runs a command as a session."""
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    client = Client()
    ambient = [{"name": arg(name), "value": arg(value)} for name, value in os.environ.items()]
    spawned = client.call("session.spawn", {
        "key": new_key(),
        "command": [arg(word) for word in words],
        "cwd": arg(os.getcwd()),
        "ambient": {"env": ambient},
    })
    session = spawned["session"]["id"]
    print("session %s, operation %s" % (session, spawned["operation"]["state"]), file=sys.stderr)
    pass_output(client, session)
    ended = client.call("session.wait", {"session": session, "for": "ended"})["session"]
    print("status %s, exit %s" % (ended["status"], json.dumps(ended["exit"])), file=sys.stderr)
    return code_of(ended)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failed, Unanswered) as error:
        print("ostler_min.py: %s" % error, file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # Nobody reads any more. Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
