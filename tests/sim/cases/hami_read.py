"""Reads a cache file as HAMi's monitor does, by the offsets of its contract: hami_read.py FILE. One line of JSON."""
import json
import struct
import sys

HEADER, SLOTS, SLOT = 2008952, 1856, 1960

with open(sys.argv[1], "rb") as file:
    data = file.read(HEADER)
if len(data) < HEADER:
    sys.exit(f"{len(data)} bytes: too short")


def number(form, offset):
    return struct.unpack_from("<" + form, data, offset)[0]


if number("i", 0) != 19920718 or number("I", 4) != 1:
    sys.exit(f"magic {number('i', 0)}, major {number('I', 4)}")
processes = []
for index in range(max(0, min(number("i", 2008896), 1024))):
    at = SLOTS + SLOT * index
    if number("i", at + 1928):
        processes.append({"pid": number("i", at), "used": number("Q", at + 8 + 32),
                          "sm": number("Q", at + 1160 + 16)})
print(json.dumps({"minor": number("I", 8), "devices": number("Q", 56), "limit": number("Q", 1600),
                  "sm_limit": number("Q", 1728), "last_kernel": number("q", 2008912),
                  "sm": sum(process["sm"] for process in processes),
                  "used": sum(process["used"] for process in processes),
                  "pids": [process["pid"] for process in processes]}))
