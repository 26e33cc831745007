#!/usr/bin/env python3
"""Verifies a ledger of ostler without any code of ostler. Python 3.9 or later, standard library only.

    verify_ledger.py FOLDER [--since SEQ:DIGEST] [--boot ID] [--json]    a ledger folder; writes nothing, takes no lock
    verify_ledger.py --history FILE [--json]                             one session's history, exported
    verify_ledger.py --proof FILE --head SEQ:DIGEST [--json]             a proof against a head that you kept
    verify_ledger.py --serve                                             a JSON case a line on stdin, a report a line on stdout

Exit: 0 sound, 8 not sound, 1 cannot be read, 2 usage, 3 no segment file. To be copied together with the folder ledger_verifier/ beside it.

Written from ledger/README.md and ledger/JUDGING.md alone. A case of --serve is
{"folder":DIR or null,"files":{NAME:BASE64 or null},"since":..,"boot":..}: the files stand in place of those in the folder,
null takes one away. Memory: two segments, the open sessions, and the findings.
"""

import argparse
import base64
import json
import os
import re
import stat
import sys
import time

sys.dont_write_bytecode = True  # it may stand in a folder that is not to be written to

from ledger_verifier.lines import HEX, Lines, TooNew
from ledger_verifier.proofs import Unsound, history, prove
from ledger_verifier.walk import NOTHING, File, Finding, Walk

FILE = re.compile(r"[0-9]{20}\.jsonl").fullmatch
READINGS_MAX = 50


def read(folder, name):
    """A segment's bytes. OSError if it is no regular file; links are not followed."""
    path = os.path.join(folder, name)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("%s is no regular file" % path)
        return file.read()


class Empty(Exception):
    """A folder without a segment file: of nothing nobody can say that it is sound."""

    def __str__(self):
        inner = os.path.join(self.args[0], "ledger")
        has_inner = os.path.isdir(inner) and any(map(FILE, os.listdir(inner)))
        return "no segment file in %s" % self.args[0] + ("; %s has some" % inner if has_inner else "")


def judge(folder, lines, boot=None, since=None, files=None):
    """One reading of a folder, with `files` in place of its own: a report, and the name of the newest segment."""
    files = files or {}
    names = {name for name in (os.listdir(folder) if folder else []) if FILE(name)}
    names = sorted(name for name in names | set(files) if files.get(name, b"") is not None)
    walk, ahead = Walk(boot, since), None
    try:
        for at, name in enumerate(names):
            here = ahead or lines.of(name, files[name] if name in files else read(folder, name))
            ahead = None
            if at + 1 < len(names):
                following = names[at + 1]
                ahead = lines.of(following, files[following] if following in files else read(folder, following))
            walk.segment(File(name, here, ahead and ahead[0] and ahead[0][0][2:3] or None))
    except TooNew as newer:
        problem = Finding("too_new", newer.name, newer.offset, "a record of version %d" % newer.args[0]).document()
        nothing = {"seq": NOTHING[0], "digest": NOTHING[1]}
        report = {"schema": 1, "ok": False, "records": 0, "head": nothing, "problems": [problem], "accepted": [], "tail": None}
        return report, names[-1]
    return walk.report(), names[-1] if names else ""


def verify(folder, boot, since):
    """Judges a folder that may be written meanwhile: what stands in the newest segment is judged only if it stays."""
    began, before = time.monotonic(), None
    if since is None and not any(map(FILE, os.listdir(folder))):
        raise Empty(folder)
    for _reading in range(READINGS_MAX):
        try:
            report, newest = judge(folder, Lines(False), boot, since)
        except FileNotFoundError:
            if not os.path.isdir(folder):
                raise
            continue  # retired while we read
        if report["ok"] or report["problems"] == before or all(p["segment"] < newest for p in report["problems"]):
            break
        before = report["problems"]
        time.sleep(0.02)  # lets a writer that fills the same range again go on
    return dict(report, elapsed_ms=int((time.monotonic() - began) * 1000))


def position(value):
    seq, _colon, digest = value.partition(":")
    if not seq.isdigit() or not HEX(digest):
        raise argparse.ArgumentTypeError("not SEQ:DIGEST: %r" % value)
    return int(seq), digest


def serve():
    lines = Lines(True)
    for case in map(json.loads, sys.stdin):
        try:
            files = {name: data and base64.b64decode(data) for name, data in case.get("files", {}).items()}
            files = {name: b"" if data == "" else data for name, data in files.items()}
            since = position(case["since"]) if case.get("since") else None
            answer = judge(case.get("folder"), lines, case.get("boot"), since, files)[0]
        except (OSError, argparse.ArgumentTypeError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    return 0


def show(report):
    if not report["ok"]:
        for problem in report.get("problems", []):
            print("%(class)s: %(segment)s at byte %(offset)d, %(missing)d missing: %(detail)s" % problem)
        return "not ok" + (": " + report["error"] if "error" in report else "")
    if "head" in report:
        return "ok: %d records, head %d:%s" % (report["records"], report["head"]["seq"], report["head"]["digest"])
    return "ok: " + json.dumps(report["proven"])


def main():
    parser = argparse.ArgumentParser(description="Verifies a ledger of ostler. Exit: 0 sound, 8 not sound, 1 cannot be read, 2 usage, 3 no segment file.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", nargs="?", metavar="FOLDER")
    what.add_argument("--history", metavar="FILE")
    what.add_argument("--proof", metavar="FILE")
    what.add_argument("--serve", action="store_true")
    parser.add_argument("--since", type=position, metavar="SEQ:DIGEST")
    parser.add_argument("--head", type=position, metavar="SEQ:DIGEST")
    parser.add_argument("--boot", metavar="ID")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if (asked.proof is None) != (asked.head is None):
        parser.error("--proof and --head belong together")
    try:
        if asked.serve:
            return serve()
        if asked.folder is not None:
            report = verify(asked.folder, asked.boot, asked.since)
        else:
            with open(asked.history or asked.proof, "rb") as file:
                data = file.read()
            report = {"schema": 1, "ok": True, "proven": history(data) if asked.history else prove(data, asked.head)}
    except Unsound as unsound:
        report = {"schema": 1, "ok": False, "error": str(unsound)}
    except Empty as empty:
        print("verify_ledger: %s" % empty, file=sys.stderr)
        return 3
    except OSError as error:
        print("verify_ledger: %s" % error, file=sys.stderr)
        return 1
    print(json.dumps(report) if asked.json else show(report))
    return 0 if report["ok"] else 8


if __name__ == "__main__":
    sys.exit(main())
