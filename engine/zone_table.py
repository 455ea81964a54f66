#!/usr/bin/env python3
"""zone_table.py: print zone_table.c from the system's compiled tzdata (python3 engine/zone_table.py > engine/zone_table.c).

Run it when tzdata has news. Each zone keeps its POSIX rule (the footer of its TZif file, RFC 8536 section 3.3), and, where
that rule does not give them, the changes that are listed beyond FROM.
"""
import io
import os
import struct
import zoneinfo
from datetime import datetime, timezone

ROOT = "/usr/share/zoneinfo"
FROM = 1735689600  # 2025-01-01
SKIP = {"posix", "right", "Factory", "localtime", "posixrules", "leapseconds"}


def read(path):
    """Return the changes (time, offset) behind FROM, the offset at FROM, and the footer."""
    data = open(path, "rb").read()
    assert data[:4] == b"TZif" and data[4:5] >= b"2"
    head = struct.unpack(">6L", data[20:44])
    isut, isstd, leap, times, types, chars = head
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    isut, isstd, leap, times, types, chars = struct.unpack(">6L", data[at + 20:at + 44])
    at += 44
    when = struct.unpack(f">{times}q", data[at:at + times * 8])
    index = data[at + times * 8:at + times * 9]
    at += times * 9
    offsets = [struct.unpack(">l", data[at + i * 6:at + i * 6 + 4])[0] for i in range(types)]
    footer = data[at + types * 6 + chars + leap * 12 + isstd + isut:].strip(b"\n").decode()
    changes = [(t, offsets[i]) for t, i in zip(when, index)]
    before = [o for t, o in changes if t <= FROM]
    return [c for c in changes if c[0] > FROM], before[-1] if before else offsets[0], footer


def by_rule(footer):
    """Return a zone that is the footer alone."""
    head = b"TZif2" + bytes(15) + struct.pack(">6L", 0, 0, 0, 0, 1, 4)
    block = head + struct.pack(">lbB", 0, 0, 0) + b"UTC\0"
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(block + block + f"\n{footer}\n".encode()))


def offset(zone, at):
    return int(datetime.fromtimestamp(at, timezone.utc).astimezone(zone).utcoffset().total_seconds())


def listed(path):
    """Return the changes up to the last one that the rule does not give, and the rule."""
    changes, start, footer = read(path)
    zone = by_rule(footer)
    wrong = [i for i, (t, o) in enumerate(changes) if offset(zone, t) != o
             or offset(zone, t - 1) != (changes[i - 1][1] if i else start)]
    if offset(zone, FROM) != start and not wrong:
        raise SystemExit(f"{path}: the rule does not hold at {FROM}")
    # One more, so that behind the list the rule holds on both sides.
    return ([(FROM, start)] + changes[:wrong[-1] + 2] if wrong else []), footer


def main():
    names = []
    for folder, _, files in os.walk(ROOT):
        for name in files:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, ROOT)
            if short.split("/")[0] in SKIP or open(path, "rb").read(4) != b"TZif":
                continue
            names.append(short)
    print("/* zone_table.c: every zone of tzdata and its rule; made by zone_table.py. */")
    print("/* clang-format off */")
    print('#include <stddef.h>\n\n#include "engine/zone_table.h"\n')
    print(f'const char zone_version[] = "{version()}";\n')
    rows = []
    for name in sorted(names, key=str.encode):
        changes, footer = listed(os.path.join(ROOT, name))
        label = "NULL"
        if changes:
            label = "changes_" + "".join(c if c.isalnum() else "_" for c in name)
            print(f"static const struct zone_change {label}[] = {{")
            for t, o in changes:
                print(f"    {{{t}, {o}}},")
            print("    {0, 0},\n};\n")
        rows.append(f'    {{"{name}", "{footer}", {label}}},')
    print("const struct zone_row zone_table[] = {")
    print("\n".join(rows))
    print("};\n")
    print("const unsigned zone_rows = sizeof(zone_table) / sizeof(zone_table[0]);")


def version():
    with open(os.path.join(ROOT, "tzdata.zi")) as f:
        return f.readline().split()[-1]


main()
