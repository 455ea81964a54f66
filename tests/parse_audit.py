#!/usr/bin/env python3
"""parse_audit.py FORMAT FILE JSONL: read FILE (csv, cef or ecs) with a strict parser of its format and hold each
row against the same row of the export JSONL. csv and ecs are read by Python's own parsers; for CEF there is a parser
here, written from the format's definition (a header of seven fields, escapes, key=value). ECS field values are held
against the allowed values of Elastic Common Schema 8.11.
"""
import csv
import datetime
import json
import re
import sys

CATEGORIES = {"api": {"access", "admin", "allowed", "change", "creation", "deletion", "denied", "end", "info", "start",
                      "user"},
              "configuration": {"access", "change", "creation", "deletion", "info"},
              "iam": {"admin", "change", "creation", "deletion", "group", "info", "user"},
              "process": {"access", "change", "end", "info", "start"}}


def milliseconds(text):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text), text
    at = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return round(at.timestamp() * 1000)


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as f:
        whole = f.read()
    assert whole.endswith("\r\n")
    for row in csv.DictReader(whole.splitlines(keepends=True), strict=True):
        assert None not in row and None not in row.values()
        yield dict(row, seq=int(row["seq"]), at=milliseconds(row["at"]))


def unescape(text, allowed):
    out, at = [], 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
            assert text[at] in allowed, text
            out.append({"n": "\n", "r": "\r"}.get(text[at], text[at]))
        else:
            assert text[at] not in allowed.replace("n", "").replace("r", ""), text
            out.append(text[at])
        at += 1
    return "".join(out)


def read_cef(path):
    with open(path, encoding="utf-8", newline="\n") as f:
        lines = f.read().removesuffix("\n").split("\n")
    for line in lines:
        assert "\r" not in line and line.startswith("CEF:0|")
        header = re.match(r"CEF:0\|" + r"((?:[^|\\]|\\[|\\])*)\|" * 6, line)
        vendor, product, _, signature, name, severity = (unescape(h, "\\|") for h in header.groups())
        assert vendor == product == "bastion" and severity in ("3", "6")
        parts = re.split(r"(?:^| )([A-Za-z0-9_]+)(?<!\\)=", line[header.end():])
        assert parts[0] == ""
        field = {k: unescape(v, "\\=nr") for k, v in zip(parts[1::2], parts[2::2])}
        assert len(field) == len(parts) // 2
        for n in range(1, 7):
            assert ("cs%d" % n in field) == ("cs%dLabel" % n in field)
        row = {"seq": int(field["externalId"]), "at": int(field["rt"]), "stream": field["cat"], "who": field["suser"],
               "entity": field.get("cs1", ""), "id": field.get("cs2", ""), "action": field.get("act", ""),
               "pairing": field.get("cs3", ""), "hash": field["cs4"], "prev": field["cs5"], "body": field["cs6"]}
        assert field["dvchost"] == "box-a" and field["cs3Label" if row["pairing"] else "cs4Label"]
        flat = re.sub(r"[\r\n]", " ", row["entity"] + "." + row["action"])
        assert signature == flat, (signature, flat)
        yield row


def read_ecs(path):
    with open(path, encoding="utf-8", newline="\n") as f:
        lines = f.read().removesuffix("\n").split("\n")
    for line in lines:
        e = json.loads(line)
        event, labels = e["event"], e["labels"]
        assert e["ecs"]["version"].startswith("8.") and event["kind"] == "event"
        assert event["outcome"] in ("success", "failure", "unknown")
        (category,), (kind,) = event["category"], event["type"]
        assert kind in CATEGORIES[category], (category, kind)
        assert isinstance(event["sequence"], int) and e["host"]["name"] == "box-a"
        assert all(isinstance(v, str) and "." not in k for k, v in labels.items())
        original = json.loads(event["original"])
        who = original[3]
        assert e["user"]["name"] == (re.sub(r"^person:(.*)\(\d+\)$", r"\1", who)), e["user"]
        body = json.loads(original[8])
        for key, value in body.items():
            if isinstance(value, str):
                assert labels["body_" + key.replace(".", "_")] == value
        yield {"seq": event["sequence"], "at": milliseconds(e["@timestamp"]), "stream": labels["stream"], "who": who,
               "entity": labels["entity"], "id": labels["entity_id"], "action": original[6],
               "pairing": labels["pairing"], "body": original[8], "prev": labels["prev"], "hash": event["hash"]}


def main(form, path, export):
    rows = list({"csv": read_csv, "cef": read_cef, "ecs": read_ecs}[form](path))
    with open(export, encoding="utf-8", newline="\n") as f:
        wanted = [r for r in map(json.loads, f.read().removesuffix("\n").split("\n")) if "seq" in r]
    assert len(rows) == len(wanted), (len(rows), len(wanted))
    for row, want in zip(rows, wanted):
        if form == "cef":
            want["body"] = want["body"][:4000]
        assert row == want, "%s\nis not\n%s" % (row, want)
    print("%d rows" % len(rows))


main(*sys.argv[1:])
