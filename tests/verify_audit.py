#!/usr/bin/env python3
"""verify_audit.py: check exports, checkpoints and proofs of an audit with nothing of bastion's.

  verify_audit.py KEY export FILE [CHECKPOINT]   rows, seals and checkpoints of an export, and an older checkpoint
  verify_audit.py KEY checkpoint FILE            the signature of a checkpoint
  verify_audit.py KEY inclusion PROOF            that the row in the proof is under its checkpoint
  verify_audit.py KEY consistency PROOF OLD      that the proof's checkpoint goes on from the checkpoint OLD

KEY is what "bastion audit key" prints. Written from RFC 6962, RFC 9162 section 2.1, c2sp.org/signed-note,
tlog-checkpoint, tlog-proof, tlog-witness, and engine/state/audit_export.md. Exit code 0: good, 1: bad.
"""
import base64, hashlib, json, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEYS = "seq at stream who entity id action pairing body".split()


def need(true, what):
    if not true:
        raise ValueError(what)

def decode(word): return base64.b64decode(word, validate=True)
def sha256(*parts): return hashlib.sha256(b"".join(parts)).digest()
def text(value): return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
def signed(key, text, signature): Ed25519PublicKey.from_public_bytes(key).verify(signature, text)

def read_key(word):
    name, key_id, typed = word.split("+", 2)
    need(decode(typed)[0] == 1, "not an Ed25519 key")
    need(sha256(name.encode(), b"\n", decode(typed))[:4].hex() == key_id, "the key ID is not that of the key")
    return name, bytes.fromhex(key_id), decode(typed)[1:]

def checkpoint(key, note):
    """The size and root of a note that is signed by the key."""
    name, key_id, public = key
    body, _, signatures = note.rpartition("\n\n")
    body += "\n"
    for line in signatures.splitlines():
        dash, signer, value = line.split(" ")
        if dash == "\u2014" and signer == name and decode(value)[:4] == key_id:
            signed(public, body.encode(), decode(value)[4:])
            origin, size, root = body.split("\n")[:3]
            need(origin == name, "the checkpoint is of another log")
            return int(size), decode(root)
    raise ValueError("the checkpoint is not signed by this key")

def add(tree, leaf):
    """Roots of whole subtrees, the largest first: (leaves, root)."""
    tree.append((1, leaf))
    while len(tree) > 1 and tree[-1][0] == tree[-2][0]:
        (n, right), (_, left) = tree.pop(), tree.pop()
        tree.append((2 * n, sha256(b"\1", left, right)))

def root_of(tree):
    root = tree[-1][1] if tree else sha256()
    for _, left in reversed(tree[:-1]):
        root = sha256(b"\1", left, root)
    return root

def row_hash(row):
    found = sha256(bytes.fromhex(row["prev"]), text([row[k] for k in KEYS]))
    need(found.hex() == row["hash"], "row %d does not match its hash" % row["seq"])
    return found

def check_export(key, lines, kept):
    tree, head, n, vouched = [], bytes(32), 0, 0
    for i, line in enumerate(lines):
        r = json.loads(line)
        if "base" in r:
            need(i == 0, "a base in the middle")
            n, head = r["base"], bytes.fromhex(r["head"])
            sizes = [1 << b for b in range(n.bit_length() - 1, -1, -1) if n >> b & 1]
            need(len(sizes) == len(r["tree"]), "the base has too few hashes")
            tree = [(s, bytes.fromhex(h)) for s, h in zip(sizes, r["tree"])]
        elif "seal" in r:
            need(r["seal"] == n and r["head"] == head.hex(), "a seal of other rows than those before it")
            signed(key[2], b"bastion-audit-1\n" + text(["audit_seal", n, r["head"], r["at"], r["reason"]]),
                   bytes.fromhex(r["signature"]))
        elif "checkpoint" in r:
            need(checkpoint(key, r["note"]) == (n, root_of(tree)), "a checkpoint of other rows")
            vouched = n
        else:
            need(r["seq"] == n + 1 and r["prev"] == head.hex(), "row %d does not follow" % r["seq"])
            n, head = r["seq"], row_hash(r)
            add(tree, sha256(b"\0", head))
        if kept and kept[0] == n:
            need(root_of(tree) == kept[1], "the rows are not those of the older checkpoint")
            kept = None
    need(not kept, "the rows do not reach the older checkpoint")
    return "rows up to %d, signed up to %d" % (n, vouched)

def climb(index, size, first, proof):
    """RFC 9162 section 2.1.3.2 and, with the older root beside it, 2.1.4.2: the two roots reached."""
    old, new, last = first, first, size - 1
    for h in proof:
        need(last > 0, "the proof is too long")
        if index & 1 or index == last:
            old, new = sha256(b"\1", h, old), sha256(b"\1", h, new)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            new = sha256(b"\1", new, h)
        index, last = index >> 1, last >> 1
    need(last == 0, "the proof is too short")
    return old, new

def check_inclusion(key, proof):
    head, note = proof.split("\n\n", 1)
    form, extra, index, *hashes = head.split("\n")
    need(form == "c2sp.org/tlog-proof@v1", "not a proof of inclusion")
    row = json.loads(decode(extra.removeprefix("extra ")))
    index, (size, root) = int(index.removeprefix("index ")), checkpoint(key, note)
    need(row["seq"] == index + 1 and index < size, "the proof is of another row")
    reached = climb(index, size, sha256(b"\0", row_hash(row)), map(decode, hashes))
    need(reached[1] == root, "the row is not in the audit")
    return "row %d is in the audit of %d rows" % (row["seq"], size)

def check_consistency(key, proof, older):
    head, note = proof.split("\n\n", 1)
    old, *hashes = head.split("\n")
    (size, root), (old_size, old_root) = checkpoint(key, note), older
    need(old == "old %d" % old_size and 0 < old_size <= size, "the proof is from another checkpoint")
    hashes = [decode(h) for h in hashes]
    if old_size == size:
        need(not hashes and root == old_root, "two roots of one size")
        return "both are of %d rows" % size
    first = hashes.pop(0) if old_size & (old_size - 1) else old_root
    shift = (old_size & -old_size).bit_length() - 1
    reached = climb((old_size - 1) >> shift, ((size - 1) >> shift) + 1, first, hashes)
    need(reached == (old_root, root), "the audit was written anew")
    return "the audit of %d rows goes on from that of %d" % (size, old_size)

def main(word, what, path, older=None):
    read = lambda name: open(name, encoding="utf-8", newline="\n").read()
    key, whole = read_key(word), read(path)
    older = older and checkpoint(key, read(older))
    if what == "export":
        return check_export(key, whole.removesuffix("\n").split("\n"), older)
    if what == "checkpoint":
        return "a checkpoint of %d rows" % checkpoint(key, whole)[0]
    return check_inclusion(key, whole) if what == "inclusion" else check_consistency(key, whole, older)

try:
    print("good:", main(*sys.argv[1:]))
except (InvalidSignature, ValueError, KeyError, TypeError, IndexError) as e:
    sys.exit("bad: %s" % (str(e) or "a signature does not fit"))
