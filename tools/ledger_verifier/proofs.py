"""One session's history, and proofs of single records: documents that need nothing but themselves, and a head.

Written from ledger/README.md ("Verify it yourself").
"""

import json

from ledger_verifier.lines import ENCODE, digest_text, parse, root_of_path


class Unsound(Exception):
    """A document that is not what it says. The text says where."""


def history(data):
    """Verifies stored lines, or the document of `ledger history`. Returns what it proves."""
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("records"), list):
        raw = []
        for stored in document["records"]:
            r = dict(stored)
            digest = r.pop("digest", None)
            raw.append(b'{"d":"%s","r":%s}' % (str(digest).encode(), ENCODE(sort(r)).encode()))
    else:
        raw = [line for line in data.split(b"\n") if line]
    last = None
    for index, line in enumerate(raw):
        record = sound(line, "record %d" % (index + 1))
        if record.sid is None or (last and (record.sid != last.sid or record.seq <= last.seq)):
            raise Unsound("record %d belongs to another history" % (index + 1))
        if last and (last.fin or record.sn != last.sn + 1 or record.sp != last.digest):
            raise Unsound("record %d does not follow from the one before" % (index + 1))
        first, last = (record.sn if last is None else first), record
    if last is None:
        raise Unsound("no records")
    return {"sid": last.sid, "from": first, "to": last.sn, "last": last.digest, "finished": last.fin}


def sort(value):
    """The value with the names of its objects in order."""
    if isinstance(value, dict):
        return {name: sort(value[name]) for name in sorted(value, key=lambda name: name.encode("utf-16-be"))}
    return [sort(item) for item in value] if isinstance(value, list) else value


def sound(line, what):
    try:
        return parse(line if isinstance(line, bytes) else line.encode("utf-8"))
    except (ValueError, AttributeError) as error:
        raise Unsound("%s: %s" % (what, error)) from None


def need(holds, what):
    if not holds:
        raise Unsound(what)


def prove(data, head):
    """Verifies a proof document against a head (seq, digest). Returns what it proves."""
    try:
        proof = json.loads(data)
        need(proof["v"] == 1, "a proof of another version")
        record = sound(proof["record"], "the record")
        need(record.seq == proof["seq"], "the record has another seq")
        seals = [sound(line, "a seal") for line in proof["seals"]]
        tail = [sound(line, "a line of the tail") for line in proof["tail"]]
        need(tail, "no tail")
        if seals:
            in_segment(proof, record, seals)
            need(tail[0].prev == seals[-1].digest, "the tail does not follow from the last seal")
        else:
            need(tail[0].digest == record.digest, "the tail does not begin with the record")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unsound("not a proof: %r" % error) from None
    for before, after in zip(tail, tail[1:]):
        need(after.seq == before.seq + 1 and after.prev == before.digest, "the tail is no chain at %d" % after.seq)
    need((tail[-1].seq, tail[-1].digest) == head, "it leads to another head: %d:%s" % (tail[-1].seq, tail[-1].digest))
    return {"seq": record.seq, "digest": record.digest}


def in_segment(proof, record, seals):
    """The record is in the segment that the first seal closes, and the seals are a chain."""
    body, first = seals[0].body, seals[0].seq - 1 - seals[0].body["count"]
    need(all(seal.t == "seal" for seal in seals), "not a seal")
    need(body["count"] == proof["count"] and body["number"] == proof["segment"], "the seal is of another segment")
    need(0 <= proof["index"] < proof["count"] and proof["index"] == record.seq - first, "the index is of another record")
    need(all(map(digest_text, proof["path"])), "a path of another form")
    root = root_of_path(record.digest, proof["index"], proof["count"], proof["path"])
    need(root is not None and root == body["root"], "the path leads to another root")
    for before, after in zip(seals, seals[1:]):
        linked = after.body["prior"] == before.digest and after.body["number"] == before.body["number"] + 1
        need(linked, "the seals are no chain at %d" % after.seq)
