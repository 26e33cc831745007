"""The walk over the segments of a ledger: which records count, what is wrong and where, and whom it concerns.

Written from ledger/JUDGING.md, which gives every rule and every word here.
"""

import re

from ledger_verifier.lines import Tree, count, digest_text, text

LINE_BYTES_MIN = 150
SEGMENT = re.compile(r"[0-9]{20}\.jsonl").fullmatch
TAIL_BYTES_MAX = 320 * 1024
NOTHING = (0, "0" * 64)
# Classes of findings by strength: the strongest reason at a place gives the class.
WORSE = ("damage", "chain_broken", "loss")
CLASSES = WORSE + ("torn_tail", "suspicious_tail", "too_new")


def listed(body, name, kind):
    """The items of this kind in a member that should be a list."""
    items = body.get(name)
    return [item for item in items if isinstance(item, kind)] if isinstance(items, list) else []


def accepted(body):
    """The findings that the body of an `accepted` record names."""
    form = {"class": text, "first": lambda first: first is None or count(first), "missing": count, "offset": count, "segment": text}
    problems = body.get("problems")
    if set(body) != {"act", "problems", "reason"} or not isinstance(problems, list) or not text(body["reason"]):
        return set()
    for problem in problems:
        if not isinstance(problem, dict) or set(problem) != set(form):
            return set()
        if not all(is_form(problem[name]) for name, is_form in form.items()) or problem["class"] not in CLASSES:
            return set()
    return {tuple(problem[name] for name in form) for problem in problems}


def later(said, last):
    """The accepted findings in segments that are not retired."""
    return [problem for problem in said["problems"] if not SEGMENT(problem["segment"]) or int(problem["segment"][:20]) > last]


def is_retirement(body):
    """Whether the body of a `retire` record has its form."""
    form = dict.fromkeys(("bytes", "carry", "count", "first", "from", "last", "to"), count)
    form.update(dict.fromkeys(("first_digest", "last_digest", "root"), digest_text), kept=lambda kept: isinstance(kept, bool))
    return set(body) == set(form) and all(is_form(body[name]) for name, is_form in form.items())


class Finding:
    """A place that is not as it should be: `missing` records from `seq` on, or something else stands at `seq`."""

    def __init__(self, kind, segment, offset, detail, seq=None):
        self.kind, self.segment, self.offset, self.detail, self.seq = kind, segment, offset, detail, seq
        self.missing, self.sessions, self.explained = 0, set(), 0
        self.lost_bytes, self.piece = 0, False  # bytes of lines that are no records; whether it is nothing but a piece
        self.precious = False  # a lost record may stand in it
        self.fresh = True  # it has one reason so far

    def worsen(self, kind, detail):
        if WORSE.index(kind) > WORSE.index(self.kind):
            self.kind, self.detail = kind, detail

    def document(self):
        place = {"class": self.kind, "segment": self.segment, "seq": self.seq, "missing": self.missing}
        return dict(place, offset=self.offset, sessions=sorted(self.sessions), detail=self.detail)


class File:
    """What the walk keeps of one segment file."""

    def __init__(self, name, lines, following):
        self.name, self.own = name, int(name[:20])
        self.found, self.end = lines
        self.following = following  # the first line of the next file, or None
        self.number = None  # once its `segment` record is taken as its first line
        self.by_seq = None

    def next(self, at):
        """(record or None) of the line behind `at`, the first of the next file included; None if there is none."""
        return self.found[at + 1][2:3] if at + 1 < len(self.found) else self.following

    def goes_on(self, at, seq, follows):
        """Whether a line behind `at` with this seq follows."""
        if self.by_seq is None:
            self.by_seq = {}
            for place, line in enumerate(self.found):
                if line[2]:
                    self.by_seq.setdefault(line[2].seq, []).append((place, line[2]))
        behind = [record for place, record in self.by_seq.get(seq, ()) if place > at]
        first = self.following and self.following[0]
        return any(map(follows, behind)) or bool(first and follows(first))


class Segment:
    """The records taken of one file, as far as a seal tells of them."""

    def __init__(self, file, record, body):
        self.file, self.number = file, body["number"] if body else None
        self.second = (record.seq if body else file.own) + 1  # where the seal stands
        self.tree, self.last, self.seal = Tree(), None, None

    def add(self, record):
        self.tree.add(record.digest)
        self.last = record
        if record.t == "seal" and record.seq == self.second:
            self.seal = record.digest

    def is_whole(self):
        return self.number is not None and self.file.own + self.tree.count == self.last.seq + 1


class Walk:
    """Give it each segment in order, then ask for the report."""

    def __init__(self, boot=None, since=None):
        self.boot, self.since, self.since_seen = boot, since, None
        self.seq, self.digest, self.durable = 0, None, 0
        self.files, self.ledger, self.ledger_boot, self.beginning = [], None, None, None
        self.segments = []  # of the last two files of which records were taken
        self.region, self.last_end = None, None  # the finding that the next record taken closes; where the last one ends
        # What may yet turn out to be the tail: (seq, segment, offset, finding or None, record or None, undo).
        self.queue, self.unsynced, self.settled_end = [], [], 0
        self.records, self.head, self.open, self.holes, self.findings = 0, NOTHING, {}, [], []
        self.gaps, self.accepted, self.retired, self.set_aside = [], [], None, []
        self.begin_prev = None  # `prev` of the first record of a ledger that begins late

    # One file.

    def segment(self, file):
        if file.found and file.own > 1 and self.seq == 0 and not self.region:
            self.begins_late(file)
        for before in self.files[-1:]:
            before.found = before.by_seq = None  # its lines are done with
        self.files.append(file)
        if file.found and file.own > self.seq + 1 + self.room() and not (self.region and self.region.kind != "damage"):
            self.note_missing(file, 0, "loss", "no file holds the records before")
        if self.is_foreign(file):
            self.note(file, 0, "chain_broken", "a segment of another ledger stands here").precious = True
        else:
            for at, (start, end, record, whole) in enumerate(file.found):
                if record is None or not whole:
                    piece = not whole and self.region is None
                    self.note(file, start, "damage", "what stands here is no record").piece = piece
                    self.region.lost_bytes += end - start
                elif self.belongs(file, at, record):
                    self.take(file, at, start, record)
                else:
                    self.stray(file, start, record)

    def room(self):
        """How many records the bytes that are no records can have held."""
        lost = self.region.lost_bytes if self.region else 0
        return lost // LINE_BYTES_MIN + 1 if lost else 0

    def begins_late(self, file):
        """What lies before is retired, as the report will see, or lost."""
        self.seq = self.durable = file.own - 1
        self.beginning = Finding("loss", file.name, 0, "what lies before is gone, and no record retires it", 1)
        self.beginning.missing = self.seq
        self.holes.append(self.beginning)
        self.findings.append(self.beginning)

    def is_foreign(self, file):
        first = file.found[0][2] if file.found else None
        body = self.segment_body(first) if first else None
        return body is not None and self.ledger not in (None, body["ledger"])

    def follows(self, record):
        known = self.digest is not None or self.seq == 0
        return record.seq == self.seq + 1 and (not known or record.prev == self.digest)

    def belongs(self, file, at, record):
        """Whether a sound record is taken here."""
        if record.seq <= self.seq or self.follows(record):
            return record.seq > self.seq
        missing, room = record.seq - self.seq - 1, self.room()
        if 0 < missing <= room:
            return True
        if not room and file.goes_on(at, self.seq + 1, self.follows):
            return False
        behind = file.next(at)
        if behind is None:
            return missing > 0 and record.dur > self.seq
        if behind[0] is None:
            return missing > 0 and room > 0
        return (behind[0].seq, behind[0].prev) == (record.seq + 1, record.digest)

    def note(self, file, start, kind, detail):
        """Something is wrong here: a new finding, or one more reason for the open one."""
        if self.region is None:
            self.region = Finding(kind, file.name, start, detail, self.seq + 1)
        else:
            self.region.fresh = False
        self.region.worsen(kind, detail)
        self.region.piece = False
        return self.region

    def note_missing(self, file, start, kind, detail):
        """As `note`, of a region without lines: it is where the last record ends, whatever file comes next."""
        self.note(file, start, kind, detail)
        if self.region.fresh and self.last_end:
            self.region.segment, self.region.offset = self.last_end

    def stray(self, file, start, record):
        self.note(file, start, "chain_broken", "a record stands here that does not follow")
        self.durable = max(self.durable, min(record.dur, self.seq))
        missed = any(hole.seq <= record.seq < hole.seq + hole.missing for hole in self.holes)
        self.region.precious |= missed or record.dur > self.seq
        if record.sid in self.open:
            self.region.sessions.add(record.sid)

    def take(self, file, at, start, record):
        """The next record of the history."""
        follows, missing = self.follows(record), record.seq - self.seq - 1
        faults = self.faults(file, at, record)
        if missing > self.room():
            self.note_missing(file, start, "chain_broken", "records are missing")
        elif missing == 0 and not follows:
            self.note(file, start, "chain_broken", "the records do not follow from one another")
            if missing == 0:
                before = [sid for sid, (_sn, _digest, seq) in self.open.items() if seq == self.seq]
                self.region.sessions.update(before + [record.sid] * (record.sid is not None))
        for kind, detail in faults:
            self.note(file, start, kind, detail)
        if self.region:
            self.region.missing = missing
            if missing == 0 and self.region.kind == "loss":
                self.region.kind = "chain_broken"
            self.find(self.region)
            self.region = None
        undo = self.session(file, start, record) if record.sid is not None else None
        self.queue.append((record.seq, file.name, start, None, record, undo))
        if self.beginning and record.seq == self.beginning.missing + 1:
            self.begin_prev = record.prev
        self.seq, self.digest, self.last_end = record.seq, record.digest, (file.name, file.found[at][1])
        if self.segment_of(file) is None:
            self.segments = self.segments[-1:] + [Segment(file, record, self.segment_body(record))]
        self.segments[-1].add(record)
        self.durable = max(self.durable, record.dur)
        self.unsynced = [seq for seq in self.unsynced if seq > self.durable]
        if record.end and not self.unsynced:
            self.settled_end = record.seq
            self.settle(len(self.queue))

    def find(self, finding):
        self.queue.append((finding.seq, finding.segment, finding.offset, finding, None, None))
        if finding.missing:
            self.holes.append(finding)
        if finding.seq > self.durable:
            self.unsynced.append(finding.seq)

    # What a record must be at its place: (class, detail) of everything that it is not.

    def segment_body(self, record):
        """The body of a `segment` record if it has the right form."""
        body = record.body if record.t == "segment" and isinstance(record.body, dict) else {}
        form = text(body.get("ledger")) and text(body.get("boot")) and count(body.get("number"))
        form = form and 1 <= body["number"] <= record.seq
        previous = "previous" not in body or digest_text(body["previous"])
        return body if form and previous and len(body) == 3 + ("previous" in body) else None

    def faults(self, file, at, record):
        body, found = self.segment_body(record), self.seal_faults(file, record)
        if (at == 0) != (body is not None) or (at == 0) != (record.t == "segment"):
            found.append("a segment does not begin here with its record, or begins elsewhere")
        elif body:
            found += self.opening(file, record, body)
        return [("chain_broken", detail) for detail in found]

    def opening(self, file, record, body):
        """A `segment` record: it fits the file, the record before and the segments before."""
        found, number = [], body["number"]
        if record.seq != file.own:
            found.append("the file has another name than its first record")
        if body.get("previous") != record.prev:
            found.append("`previous` is another record")
        before = self.files[-2].number if len(self.files) > 1 else None
        due = before + 1 if before else 1 if file.own == 1 else number
        if number != due:
            found.append("the segment has another number")
        file.number, self.ledger, self.ledger_boot = number, body["ledger"], body["boot"]
        return found

    def segment_of(self, file):
        return self.segments[-1] if self.segments and self.segments[-1].file is file else None

    def seal_faults(self, file, record):
        """Seals stand second in a segment and nowhere else, and fit the segment before."""
        here = self.segment_of(file)
        before = ([None] + self.segments)[-2 if here else -1]
        second = record.seq == (here.second if here else file.own + 1)
        if record.t != "seal":
            return ["the segment before is not sealed"] if second and before and before.seal else []
        if not second:
            return ["a seal in another place"]
        body = record.body if isinstance(record.body, dict) else {}
        form = {"last": digest_text, "number": count, "count": count, "prior": digest_text, "root": digest_text}
        if not {"last", "number"} <= set(body) <= set(form) or not all(form[name](body[name]) for name in body):
            return ["a seal of another form"]
        if not before or before.last.seq + 2 != record.seq:
            return []
        found = []
        if before.number not in (None, body["number"]) or body["last"] != before.last.digest:
            found.append("the seal does not fit the segment before")
        if before.is_whole():
            if body.get("prior") != before.seal:
                found.append("the seal does not follow from the seal before")
            if (body.get("count"), body.get("root")) not in ((None, None), (before.tree.count, before.tree.root())):
                found.append("the seal does not fit the records of the segment before")
        return found

    # Sessions: their own chains, and who may own what is missing.

    def session(self, file, start, record):
        """The session's chain goes on. Returns what undoes it."""
        before = self.open.pop(record.sid, None)
        sn, digest, seen = before or (0, None, 0)
        jump, charged = record.sn - sn - 1, []
        if not record.fin:
            self.open[record.sid] = (record.sn, record.digest, record.seq)
        if jump == 0 and record.sp == digest:
            return (record.sid, before, charged)
        holes = [hole for hole in self.holes if hole.seq > seen]
        room = sum(hole.missing for hole in holes) - (holes[0].explained if len(holes) == 1 else 0)
        if not 0 < jump <= room:
            broken = Finding("chain_broken", file.name, start, "the session's own chain does not go on here", record.seq)
            broken.sessions.add(record.sid)
            last = self.queue[-1][3] if self.queue else None
            if last and (last.segment, last.offset, last.seq) == (broken.segment, broken.offset, broken.seq):
                last.worsen(broken.kind, broken.detail)
                last.sessions.add(record.sid)
            else:
                self.find(broken)
            return (record.sid, before, charged)
        for hole in holes:
            explained = jump if len(holes) == 1 else 0
            charged.append((hole, explained, record.sid in hole.sessions))
            hole.explained += explained
            hole.sessions.add(record.sid)
        return (record.sid, before, charged)

    def take_back(self, sid, before, charged):
        self.open.pop(sid, None)
        if before:
            self.open[sid] = before
        for hole, explained, named in charged:
            hole.explained -= explained
            if not named:
                hole.sessions.discard(sid)

    # Whole or synced: only now does it count.

    def settle(self, events):
        for _seq, _segment, _offset, finding, record, _undo in self.queue[:events]:
            if finding:
                self.findings.append(finding)
                continue
            self.records, self.head = self.records + 1, (record.seq, record.digest)
            if self.since and record.seq == self.since[0]:
                self.since_seen = record.digest
            if record.sid is None and isinstance(record.body, dict):
                self.own(record, record.body)
        del self.queue[:events]

    def own(self, record, body):
        """What the ledger says about itself."""
        if record.t == "recovered" and body.get("class") == "suspicious_tail":
            place = body.get("segment"), body.get("offset")
            self.set_aside.append(Finding("suspicious_tail", *place, "set aside by a start, accepted by nobody", record.seq))
        for t, kept in (("gap", self.gaps), ("accepted", self.accepted)):
            if record.t == t:
                kept.append(body)
        if record.t == "retire" and is_retirement(body):
            self.retired, last = body, body["last"]
            self.set_aside = [tail for tail in self.set_aside if tail.seq > last]
            self.accepted = [dict(said, problems=later(said, last)) for said in self.accepted if accepted(said)]

    # The report.

    def report(self):
        tail, size = self.tail()
        for hole in self.holes:
            if hole.explained < hole.missing:
                hole.sessions.update(sid for sid, (_sn, _digest, seq) in self.open.items() if seq < hole.seq)
        for finding in self.findings:
            for gap in self.gaps:
                if (gap.get("first"), gap.get("segment"), gap.get("offset")) == (finding.seq, finding.segment, finding.offset):
                    finding.sessions.update(listed(gap, "sessions", str))
        if self.beginning and self.retired:
            last, before = self.retired["last"], self.beginning.missing
            if last > before or last == before and self.begin_prev in (None, self.retired["last_digest"]):
                self.findings.remove(self.beginning)
        named = set().union(*map(accepted, self.accepted))
        split = {True: [], False: []}
        for found in self.findings + self.set_aside:
            key = (found.kind, found.seq, found.missing, found.offset, found.segment)
            split[key in named].append(found.document())
        later = [tail] if tail and tail.kind != "torn_tail" else []
        split[False] += [problem.document() for problem in later + self.behind_since()]
        torn = tail if tail and tail.kind == "torn_tail" else None
        return {
            "schema": 1, "ok": not split[False], "records": self.records,
            "head": {"seq": self.head[0], "digest": self.head[1]},
            "problems": split[False], "accepted": split[True],
            "tail": torn and {"class": torn.kind, "segment": torn.segment, "offset": torn.offset, "bytes": size, "detail": torn.detail},
        }  # fmt: skip

    def tail(self):
        """Settles what is whole or synced. What is left is the tail: its finding, and its length in bytes."""
        limit = min(self.unsynced, default=self.seq + 1)
        ends = [record.seq for seq, _s, _o, _f, record, _u in self.queue if record and record.end and seq < limit]
        bar, kept = max([self.durable, self.settled_end] + ends), 0
        while kept < len(self.queue) and self.queue[kept][0] <= bar:
            kept += 1
        self.settle(kept)
        findings = [event[3] for event in self.queue if event[3]] + [self.region] * (self.region is not None)
        if not self.queue and not self.region:
            return None, 0
        segment, offset = self.queue[0][1:3] if self.queue else (self.region.segment, self.region.offset)
        for _seq, _segment, _offset, finding, _record, undo in reversed(self.queue):
            if undo:
                self.take_back(*undo)
            if finding in self.holes:
                self.holes.remove(finding)
        later = [(file, offset if file.name == segment else 0) for file in self.files if file.name >= segment]
        pieces = [(file.name, begin, file.end - begin) for file, begin in later if file.end > begin]
        segment, offset, size = pieces[0]
        explained = {"damage"} if self.other_boot() else set()
        no_begin = self.beginning is not None and self.records == 0
        precious = any(finding.precious for finding in findings)
        if len(pieces) > 1 or size > TAIL_BYTES_MAX or no_begin or precious:
            kind, detail = "chain_broken", "no whole turn, and more than a crash leaves"
        elif all(finding.piece or finding.kind in explained for finding in findings):
            kind, detail = "torn_tail", "no whole turn"
        else:
            kind, detail = "suspicious_tail", "no whole turn, and no crash leaves it so"
        return Finding(kind, segment, offset, detail, self.head[0] + 1), size

    def other_boot(self):
        return self.ledger_boot is None or self.boot not in (None, self.ledger_boot)

    def behind_since(self):
        """What a head that was kept elsewhere shows."""
        if not self.since or self.since[0] == 0 or self.since_seen == self.since[1]:
            return []
        if self.beginning and self.beginning not in self.findings and self.since[0] <= self.beginning.missing:
            if self.since[0] != self.retired["last"] or self.since[1] == self.retired["last_digest"]:
                return []  # retired: nothing else is left to compare with
        place = (self.files[-1].name if self.files else "", 0)
        if self.since_seen:
            return [Finding("chain_broken", *place, "another record than the head that was kept", self.since[0])]
        return [Finding("loss", *place, "the record of the head that was kept is not there", self.since[0])]
