"""Counts of passed and failed tests in the output of a test runner."""

from __future__ import annotations

import re
from typing import Final

_PYTEST: Final = re.compile(
    r"(?m)^=*[ \t]*((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|warnings?|deselected)(?:, )?)+) in [\d.:]+"
)
_CARGO: Final = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed")
_JEST: Final = re.compile(r"(?m)^[ \t]*Tests:?\s+((?:\d+ \w+[,| ]*)+)")
_MOCHA: Final = re.compile(r"(?m)^[ \t]*(\d+) (passing|failing)\b")
_UNITTEST: Final = re.compile(r"(?m)^Ran (\d+) tests? in [\d.]+s\s+(OK|FAILED)(?: \(([^)\n]*)\))?")
_TAP: Final = re.compile(r"(?m)^# (pass|fail) (\d+)$")
_GO: Final = re.compile(r"(?m)^(?:[ \t]*--- (PASS|FAIL): |(ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)|\[))")
_MAVEN: Final = re.compile(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+)")
_DOTNET: Final = re.compile(r"(?:Passed|Failed)!\s+- Failed:\s+(\d+), Passed:\s+(\d+)")
_RSPEC: Final = re.compile(r"(?m)^(\d+) examples?, (\d+) failures?")
_WORD: Final = re.compile(r"(\d+) (passed|failed|errors?|passing|failing)")


def count_tests(output: str) -> tuple[int, int] | None:
    """Return (passed, failed) of the last report in an output; None without one."""
    tail = output[-20_000:]
    if found := _PYTEST.findall(tail) or _JEST.findall(tail):
        counts = _WORD.findall(found[-1])
        failed = sum(int(number) for number, word in counts if word.startswith(("fail", "error")))
        return sum(int(number) for number, word in counts if word.startswith("pass")), failed
    if found := _CARGO.findall(tail):
        return sum(int(passed) for passed, _ in found), sum(int(failed) for _, failed in found)
    if match := _UNITTEST.search(tail):
        failed = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", match[3] or "")))
        return int(match[1]) - failed, failed
    for pattern in (_MOCHA, _TAP):
        if found := pattern.findall(tail):
            named = {name[:4]: int(number) for name, number in (sorted(pair, key=str.isdigit) for pair in found)}
            return named.get("pass", 0), named.get("fail", 0)
    if found := _MAVEN.findall(tail):
        total, *bad = map(int, found[-1])
        return total - sum(bad), sum(bad)
    if found := _DOTNET.findall(tail):
        return int(found[-1][1]), int(found[-1][0])
    if found := _RSPEC.findall(tail):
        return int(found[-1][0]) - int(found[-1][1]), int(found[-1][1])
    if found := _GO.findall(tail):
        words = [first or second for first, second in found]
        return sum(word in ("PASS", "ok") for word in words), words.count("FAIL")
    return None
