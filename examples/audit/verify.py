#!/usr/bin/env python3
"""Verify the files of an Ostiary audit log, without Ostiary and without a library.

    python3 verify.py --key audit.key.pub [--running] [--against FILE] FILE...

The files are those of one log, in their order. The program prints what is wrong and
exits with 1, or prints what the signatures prove and exits with 0. docs/audit.md
describes the form of the lines. --running is for a log that its node still writes.
--against FILE has lines of the server's log: the records of the signed heads in it must
be there.
"""

import base64
import hashlib
import json
import os
import re
import sys

HASH = re.compile(rb'(.*),"hash":"([0-9a-f]{64})"\}\n', re.DOTALL)
SIGNATURE = re.compile(rb'(.*),"signature":"([^"]*)"', re.DOTALL)
HEAD = re.compile(rb"\b(([a-z]+)/([0-9a-f]{32})/([1-9][0-9]{0,18})/([0-9a-f]{64}))/([A-Za-z0-9_-]{86})")
SIGNED = ("begin", "head", "end")

# Ed25519, RFC 8032: the curve -x² + y² = 1 + d·x²·y² over the integers modulo P.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def decompress(data):
    """Return the point of 32 bytes as (X, Y, Z, T), or None."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(n, p):
    q = (0, 1, 1, 0)
    while n:
        if n & 1:
            q = add(q, p)
        p, n = add(p, p), n >> 1
    return q


BASE = decompress(bytes([0x58]) + bytes([0x66]) * 31)


def signed_by(key, message, signature):
    """Report whether the signature of a message is that of a public key."""
    a = decompress(key)
    if a is None or len(signature) != 64:
        return False
    r, s = decompress(signature[:32]), int.from_bytes(signature[32:], "little")
    if r is None or s >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    left, right = times(s, BASE), add(r, times(h, a))
    return not ((left[0] * right[2] - right[0] * left[2]) % P or (left[1] * right[2] - right[1] * left[2]) % P)


def public_key(pem):
    """Return the 32 bytes of a public key in PEM: the end of its DER."""
    der = base64.b64decode("".join(line for line in pem.splitlines() if not line.startswith("-----")))
    if len(der) != 44:
        raise ValueError("the key is no ed25519 public key")
    return der[-32:]


def parse(line):
    """Return (members, hash, signed bytes, signature) of a line, or raise ValueError."""
    whole = HASH.fullmatch(line)
    if not whole:
        raise ValueError("the line is not a whole line of an audit log")
    content, written = whole.groups()
    if hashlib.sha256(content).hexdigest().encode() != written:
        raise ValueError("the line was changed: its hash is not that of its content")
    members = json.loads(content + b"}")
    signed = SIGNATURE.fullmatch(content) if members["kind"] in SIGNED else None
    if signed:
        return members, written.decode(), signed[1], base64.b64decode(signed[2], validate=True)
    return members, written.decode(), b"", b""


def compare(files, keys, text):
    """Compare the files of one log with the heads in a text. Return findings."""
    heads = {m.groups() for m in HEAD.finditer(text)}
    heads = [h for h in heads if any(signed_by(key, b"ostiary audit head\n" + h[0], base64.urlsafe_b64decode(h[5] + b"==")) for key in keys)]
    if not heads:
        return ["no head has a valid signature of the key"]
    hashes, log, first, last, oldest = {}, None, 0, 0, 0
    for _, data in files:
        for line in re.findall(rb"[^\n]*\n", data):
            try:
                members, written, _, _ = parse(line)
            except (ValueError, KeyError):
                continue  # verify has found it
            last = members["number"]
            log, first, oldest = log or members.get("log"), first or last, members.get("oldest", oldest)
            hashes[last] = written
    findings = []
    for _, _, of, number, written, _ in sorted(heads, key=lambda h: int(h[3])):
        number = int(number)
        if of.decode() != log:
            findings.append(f"record {number} was signed as the head of another log: all files of that log are missing")
        elif hashes.get(number, written.decode()) != written.decode():
            findings.append(f"record {number} is not that of the signed head with this number: the log was replaced")
        elif number not in hashes and number >= min(first, oldest):
            findings.append(f"record {number} was signed as the head of the log, but it is missing")
    return findings


def verify(files, keys, running=False):
    """Verify [(name, bytes)] of one log. Return (findings, notes, number of the last
    signed line, number of records)."""
    findings, notes = [], []
    prev, prev_hash, prev_name, changed = None, "", "", False
    log, first, proved, oldest, torn = None, None, 0, None, 0
    for name, data in files:
        torn_before, torn = torn, 0
        if not data:
            findings.append(f"{name}: the file is empty")
        for n, line in enumerate(re.findall(rb"[^\n]*\n|[^\n]+", data), 1):
            at = f"{name}:{n}: "
            try:
                members, written, signed, signature = parse(line)
            except (ValueError, KeyError) as why:
                findings.append(at + str(why))
                torn, changed = torn + len(line), True
                continue
            number, kind = members["number"], members["kind"]
            if n == 1 and kind != "begin":
                findings.append(at + f"the file begins with record {number}, not with a signed first line: lines were removed")
            if n > 1 and kind == "begin":
                findings.append(at + "a first line of a file is inside another file")
            if prev is None:
                log, first = members.get("log"), number
                if number > 1 and not changed:
                    notes.append(at + f"the files up to record {number - 1} are not among those given")
            elif log and members.get("log", log) != log:
                findings.append(at + f"the line is of another log: {members['log']}, expected {log}")
            elif number <= prev["number"]:
                findings.append(at + f"record {number} follows record {prev['number']}: the order was changed")
            elif number > prev["number"] + (2 if changed else 1):
                what = "a file is missing, or an end was cut" if n == 1 else "records are missing"
                findings.append(at + f"record {number} follows record {prev['number']}: {what}")
            elif not changed and members["prev"] != prev_hash:
                findings.append(at + f"record {number} does not continue record {prev['number']}: one of them was replaced")
            elif not changed and prev["kind"] == "end" and n > 1:
                findings.append(at + "a record follows the last line of a file")
            if kind == "begin":
                oldest = members["oldest"]
                if prev is not None and prev["kind"] != "end":
                    if members.get("unclosed"):
                        notes.append(f"{prev_name}: the file has no last line: the node was killed")
                    else:
                        findings.append(f"{prev_name}: the file has no last line, but it had one: its end was cut")
                if prev is not None and torn_before != members.get("torn", 0):
                    findings.append(f"{prev_name}: {torn_before} bytes at its end are no line, but there were {members.get('torn', 0)}")
            if kind in SIGNED:
                if any(signed_by(key, b"ostiary audit log\n" + signed, signature) for key in keys):
                    proved = number
                else:
                    findings.append(at + f"record {number} has no valid signature of the key")
            if kind == "lost":
                notes.append(at + f"the node lost {members['count']} records here")
            prev, prev_hash, prev_name, changed, torn = members, written, name, False, 0
    if prev is None:
        return findings or ["no file has a line of an audit log"], notes, 0, 0
    if prev["kind"] != "end":
        if running:
            notes.append(f"{prev_name}: the node still writes the file: nothing after record {proved} is signed yet")
        else:
            findings.append(f"{prev_name}: the file has no last line: its end was cut after record {prev['number']}, or the node was killed or still runs")
    elif prev.get("before") == "rotation" and not running:
        findings.append(f"{prev_name}: the log goes on after record {prev['number']}: the last file is missing")
    if oldest is not None and oldest < first:
        findings.append(f"{prev_name}: the node kept the files from record {oldest} on, but those given begin with record {first}: a file is missing")
    return findings, notes, proved, prev["number"] - first + 1


def main(words):
    keys, files, running, against = [], [], False, None
    words = iter(words)
    for word in words:
        if word == "--key":
            with open(next(words), encoding="ascii") as f:
                keys.append(public_key(f.read()))
        elif word == "--against":
            with open(next(words), "rb") as f:
                against = (against or b"") + f.read() + b"\n"
        elif word == "--running":
            running = True
        else:
            with open(word, "rb") as f:
                files.append((os.path.basename(word), f.read()))
    if not keys or not files:
        print(__doc__, file=sys.stderr)
        return 2
    findings, notes, proved, last = verify(files, keys, running)
    if against is not None:
        findings += compare(files, keys, against)
    for note in notes:
        print("note:", note)
    for finding in findings:
        print(finding)
    if findings:
        return 1
    print(f"verified {last} records: signed up to record {proved}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
