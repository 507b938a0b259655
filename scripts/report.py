#!/usr/bin/env python3
"""report.py JUNIT: what ctest's JUnit file says. Prints the tests that failed, what was skipped and why, and last a line
of three numbers: how many passed, failed and were skipped.

A test that is skipped says why in a line "skip: REASON", or else in the last line that it prints. Where a part of a test
is skipped and the rest passes, it prints the same line, or bats prints "# skip REASON" for it.
"""

import collections
import re
import sys
import xml.etree.ElementTree

PART = re.compile(r"^(?:skip(?:ped)?: |ok \d+ .*# skip ?)(.*)$", re.MULTILINE)


def reasons(text, whole):
    found = [re.sub(r"^\((.*)\)$", r"\1", reason.strip()) or "no reason given" for reason in PART.findall(text)]
    if whole:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        found = found[-1:] or lines[-1:] or ["no reason given"]
    return collections.Counter(found)


def print_groups(title, groups):
    if groups:
        print(title)
    for reason, names in sorted(groups.items()):
        print(f"  {reason}: {' '.join(sorted(names))}")


def main(path):
    failed, passed = [], 0
    skipped, parts = collections.defaultdict(list), collections.defaultdict(list)
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name, status = case.get("name"), case.get("status")
        text = case.findtext("system-out") or ""
        if status == "disabled":
            continue
        mark = case.find("skipped")
        # A program that is not there is "skipped" for ctest as well.
        if mark is not None and mark.get("message", "").startswith("SKIP_"):
            for reason in reasons(text, True):
                skipped[reason].append(name)
        elif status == "run" and case.find("failure") is None:
            passed += 1
            for reason, times in reasons(text, False).items():
                parts[reason].append(name if times == 1 else f"{name} ({times})")
        else:
            failed.append(name)
    print_groups("skipped:", skipped)
    print_groups("parts that were skipped:", parts)
    if failed:
        print(f"failed: {' '.join(failed)}")
    print(passed, len(failed), sum(len(names) for names in skipped.values()))


main(sys.argv[1])
