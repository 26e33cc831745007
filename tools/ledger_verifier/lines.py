"""Lines and records: frame, digest, canonical form, limits, members; and Merkle trees.

Written from ledger/README.md ("A line", "Segments"). Nothing here knows what stands before or behind a line.
"""

import hashlib
import json
import re

LINE_BYTES_MAX = 65_536
DEPTH_MAX = 16
INTEGER_END = 1 << 53
CACHED_LINES_MAX = 50_000
CACHED_FILES_MAX = 100

HEX = re.compile(r"[0-9a-f]{64}").fullmatch
HEX_BYTES = re.compile(rb"[0-9a-f]{64}").fullmatch
TYPE = re.compile(r"[a-z_]{1,32}").fullmatch
VERSION = re.compile(rb'"v":([1-9][0-9]{0,14})\}\Z').search


class TooNew(Exception):
    """A record of a later version: (version)."""


def integer(text):
    value = int(text) if len(text) <= 17 else INTEGER_END
    if not -INTEGER_END < value < INTEGER_END:
        raise ValueError("integer too large")
    return value


def refuse(text):
    raise ValueError("not an integer: " + text)


def in_order(pairs):
    """An object whose names ascend by UTF-16 code units; so no name stands twice."""
    last = None
    for name, _ in pairs:
        key = name.encode("utf-16-be")
        if last is not None and key <= last:
            raise ValueError("names out of order")
        last = key
    return dict(pairs)


DECODE = json.JSONDecoder(object_pairs_hook=in_order, parse_int=integer, parse_float=refuse, parse_constant=refuse).decode
ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def canonical(raw):
    """The JSON value whose RFC 8785 form these bytes are. ValueError if they are none."""
    value = DECODE(raw.decode("utf-8"))
    if ENCODE(value).encode("utf-8") != raw:
        raise ValueError("not in canonical form")
    if raw.count(b"{") + raw.count(b"[") >= DEPTH_MAX and depth(value) >= DEPTH_MAX:
        raise ValueError("nested too deep")
    return value


def count(value):
    return type(value) is int and value >= 0


def text(value):
    return isinstance(value, str)


def digest_text(value):
    return isinstance(value, str) and HEX(value) is not None


MEMBERS = {
    "v": lambda value: type(value) is int and value == 1,
    "t": lambda value: isinstance(value, str) and TYPE(value) is not None,
    "seq": lambda value: count(value) and value > 0,
    "prev": digest_text,
    "sid": lambda value: isinstance(value, str) and 1 <= len(value.encode("utf-8")) <= 64,
    "ep": lambda value: count(value) and value < 1 << 32,
    "sn": lambda value: count(value) and value > 0,
    "sp": digest_text,
    "bg": count,
    "dur": count,
    "end": lambda value: value is True,
    "fin": lambda value: value is True,
    "at": text,
    "mono": count,
    "op": text, "kind": text, "key": text, "req": text, "st": text, "err": text,
    "act": lambda value: True, "res": lambda value: True, "body": lambda value: True,
}  # fmt: skip
ALWAYS = ("v", "t", "seq", "bg", "dur", "at", "mono")


class Record:
    """One sound record: its digest and the members that the walk needs."""

    __slots__ = ("digest", "t", "seq", "prev", "sid", "sn", "sp", "dur", "end", "fin", "body")

    def __init__(self, digest, r):
        if not all(name in MEMBERS and MEMBERS[name](value) for name, value in r.items()):
            raise ValueError("a member that version 1 does not have, or of another type")
        if not all(name in r for name in ALWAYS):
            raise ValueError("a member is missing")
        self.digest, self.t, self.seq, self.prev = digest, r["t"], r["seq"], r.get("prev")
        self.sid, self.sn, self.sp, self.dur = r.get("sid"), r.get("sn"), r.get("sp"), r["dur"]
        self.end, self.fin, self.body = "end" in r, "fin" in r, r.get("body") if "sid" not in r else None
        together = (self.prev is None) == (self.seq == 1) and (self.sid is None) == (self.sn is None)
        session = (self.sp is None) == (self.sn in (None, 1)) and (self.sid is not None or not (self.fin or "ep" in r))
        if not together or not session or self.dur >= self.seq:
            raise ValueError("members that do not go together")


def sha(version, raw):
    return hashlib.sha256(b"ledger-record-v%d\n" % version + raw).hexdigest()


def parse(line):
    """The record in a line without its LF. ValueError if it is none, TooNew if it is one of a later version."""
    if line[:6] != b'{"d":"' or line[70:76] != b'","r":' or line[-1:] != b"}" or not HEX_BYTES(line[6:70]):
        raise ValueError("not framed as a record")
    digest, raw = line[6:70].decode(), line[76:-1]
    if len(line) >= LINE_BYTES_MAX:
        raise ValueError("line too long")
    version = VERSION(raw)
    version = int(version[1]) if version else 0
    if version > 1 and digest in (sha(1, raw), sha(version, raw)):
        raise TooNew(version)
    if digest != sha(1, raw):
        raise ValueError("wrong digest")
    try:
        r = canonical(raw)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(r, dict):
        raise ValueError("not an object")
    return Record(digest, r)


class Lines:
    """Parses lines; can remember lines and files, for a server that sees the same ones in many cases."""

    def __init__(self, remember):
        self.cache, self.files = {} if remember else None, {}

    def record(self, line):
        """The record, or None where there is none."""
        if self.cache is None:
            return self.parsed(line)
        if line not in self.cache:
            if len(self.cache) >= CACHED_LINES_MAX:
                self.cache.clear()
            self.cache[line] = self.parsed(line)
        return self.cache[line]

    @staticmethod
    def parsed(line):
        try:
            return parse(line)
        except ValueError:
            return None

    def of(self, name, data):
        """(start, end behind its LF, record or None, whether it has an LF) of every line, and where the fill begins."""
        if data in self.files:
            return self.files[data]
        fill = len(data.rstrip(b"\n"))
        fill += fill < len(data)
        found, start = [], 0
        while start < fill:
            end = data.find(b"\n", start) + 1
            try:
                record = self.record(data[start : end - 1] if end else data[start:fill])
                found.append((start, end or fill, record, end > 0))
            except TooNew as newer:
                newer.name, newer.offset = name, start
                raise
            start = end or fill
        if self.cache is not None:
            if len(self.files) >= CACHED_FILES_MAX:
                self.files.clear()
            self.files[data] = found, fill
        return found, fill


# Merkle trees as in RFC 6962, over 32-byte leaves.


def node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """Leaves one by one; full subtrees are folded as they fill."""

    def __init__(self):
        self.count, self.full = 0, []

    def add(self, digest):
        fresh, size = hashlib.sha256(b"\x00" + bytes.fromhex(digest)).digest(), self.count
        while size & 1:
            fresh, size = node(self.full.pop(), fresh), size >> 1
        self.full.append(fresh)
        self.count += 1

    def root(self):
        top = None
        for subtree in reversed(self.full):
            top = subtree if top is None else node(subtree, top)
        return top.hex() if top else None


def root_of_path(digest, index, size, path):
    """The root that an audit path leads to; None if the path has another length than index and size say."""
    top, last = hashlib.sha256(b"\x00" + bytes.fromhex(digest)).digest(), size - 1
    for step in map(bytes.fromhex, path):
        if last == 0:
            return None
        if index & 1 or index == last:
            top = node(step, top)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            top = node(top, step)
        index, last = index >> 1, last >> 1
    return top.hex() if last == 0 else None
