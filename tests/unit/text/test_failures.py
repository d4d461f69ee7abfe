"""Failures in the output of tools, and the fingerprints by which the same one is found again."""

import time

import pytest

from helix.text.failures import MOST, find_failures
from helix.text.step_keys import list_fault_keys, list_path_ends, list_step_keys, read_faults
from helix.text.test_counts import count_tests
from helix.types import Step

TRACE = """Traceback (most recent call last):
  File "/home/ines/harbour/queue.py", line 31, in pop
    raise X
ModuleNotFoundError: No module named 'tides.core'
"""

KINDS = {
    TRACE: ("modulenotfounderror", "no module named 'tides.core'", "home/ines/harbour/queue.py:pop"),
    "Error: connect ECONNREFUSED 127.0.0.1:6379": ("econnrefused", "connect econnrefused #", ""),
    "src/a.ts(3,4): error TS2345: Type 'string' is bad.": ("ts2345", "type 'string' is bad", "src/a.ts"),
    "src/a.ts:3:4 - error TS2345: Type 'string' is bad.": ("ts2345", "type 'string' is bad", "src/a.ts"),
    "error[E0382]: borrow of moved value: `x`": ("e0382", "borrow of moved value: `x`", ""),
    "bash: pyton: command not found": ("shell", "pyton: command not found", ""),
    "(eval):1: command not found: pyton": ("shell", "command not found: pyton", ""),
    "ls: /Users/ines/x: No such file or directory": ("ls", "x: no such file or directory", ""),
    "make: *** [Makefile:12: test] Error 2": ("make", "*** [makefile: test] error #", ""),
    "go: cannot find main module": ("go", "cannot find main module", ""),
    "main.go:92:1: File is not properly formatted (gofmt)": ("gofmt", "file is not properly formatted", "main.go"),
    "a.go:2:1: ST1005: error strings are wrong (staticcheck)": ("st1005", "error strings are wrong", "a.go"),
    "npm ERR! code ERESOLVE": ("eresolve", "", ""),
    "--- FAIL: TestPop (0.00s)": ("test", "testpop", ""),
    "FAILED tests/test_queue.py::test_pop - AssertionError": ("test", "test_queue.py::test_pop", ""),
    "test queue::pop ... FAILED": ("test", "queue::pop", ""),
    "thread 'main' panicked at src/main.rs:3:5: boom": ("panic", "boom", "src/main.rs"),
    "java.lang.NullPointerException": ("nullpointerexception", "", ""),
    "fatal: not a git repository": ("git", "not a git repository", ""),
}  # fmt: skip


@pytest.mark.parametrize("output", KINDS)
def test_a_failure_has_a_kind_a_message_and_a_place(output):
    found = find_failures(output, program="git push" if output.startswith("fatal") else "")
    assert [(one.kind, one.message.replace("\x00", ""), one.place) for one in found] == [KINDS[output]]


def test_other_output_is_no_failure():
    for output in ("0 issues.", "All good: 0 errors, 12 passed", "go: downloading x v1", "warning: unused variable `x`",
                   "12:func Error() error {", "an error is a value", "", "\n\n"):  # fmt: skip
        assert find_failures(output, program="go build") == [], output
    # A log that says that a call failed tells its message all the same.
    assert [one.line for one in find_failures("String to replace not found\nString: x", failed=True, run=False)] == [
        "String to replace not found"
    ]
    assert find_failures("error: it is broken", failed=False) == []


def test_a_reader_fails_by_its_own_message_only():
    shown = "queue.py:3: raise ValueError\nValueError: bad"
    assert find_failures(shown, reading=True, program="grep") == []
    assert len(find_failures("grep: x.py: No such file or directory", reading=True, program="grep")) == 1


def test_causes_come_before_tests_and_only_the_first_few():
    output = "--- FAIL: TestPop\nqueue_test.go:3:1: expected tide, got ebb\nFAIL\n"
    assert [one.kind for one in find_failures(output, program="go test")] == ["go", "test"]
    many = "".join(f"a{i}.go:1:1: name{chr(97 + i)} is unused (unused)\n" for i in range(20))
    assert len(find_failures(many)) == MOST


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("/a/b/q.py:31: error: no tide at 0x7f (x)", "/srv/q.py:99: error: no tide at 0x11 (x)", "failure"),
        ("OSError: Error 111 connecting to 10.0.0.1:6379", "OSError: Error 61 connecting to localhost:1", "failure"),
        ("KeyError: 'tide_a' is missing in the table", "KeyError: 'ebb' is missing in the table", "loose"),
        (
            "r.go:9:1: cannot use fooProvider (variable of type *foo.Provider) as spi.Provider value",
            "r.go:8:1: cannot use barProvider (variable of type *bar.Provider) as spi.Provider value",
            "loose",
        ),
    ],
)  # fmt: skip
def test_the_same_failure_again_has_the_same_keys(one, other, level):
    first, second = ({key for fault in read_faults(text) for key in list_fault_keys(fault)} for text in (one, other))
    assert level in {key[0] for key in first & second}


def test_other_failures_share_no_close_key():
    texts = ["KeyError: 'tide'", "KeyError: 'ebb'", "ValueError: 'tide'", "AssertionError: assert 1 == 2"]
    keys = [
        {key for fault in read_faults(text) for key in list_fault_keys(fault) if key[0] == "failure"} for text in texts
    ]
    assert all(a.isdisjoint(b) for i, a in enumerate(keys) for b in keys[:i])


def test_ends_of_a_path():
    assert list_path_ends("/srv/app/src/queue.py") == [
        "srv/app/src/queue.py",
        "app/src/queue.py",
        "src/queue.py",
        "queue.py",
    ]
    assert list_path_ends("C:\\app\\queue.py")[-1] == "queue.py"
    assert list_path_ends("./queue.py") == ["queue.py"]
    assert list_path_ends("") == list_path_ends("..") == []


def test_keys_of_steps():
    assert ("edit", "src/a.py") in list_step_keys(Step("1", "edit", "Edit", "/x/src/a.py"))
    patch = list_step_keys(Step("1", "edit", "apply_patch", "src/a.py, b.py"))
    assert ("edit", "b.py") in patch
    assert list_step_keys(Step("1", "run", "Bash", "git diff")) == []
    assert ("tests",) in list_step_keys(Step("1", "run", "Bash", "cd x && pytest -q"))
    assert list_step_keys(Step("1", "result", commits=("abc1234def",))) == [("commit", "abc1234")]
    assert list_step_keys(Step("1", "correct", target="00aa")) == [("corrects", "00aa")]


COUNTS = {
    "=== 3 failed, 12 passed, 1 skipped in 0.31s ===": (12, 3),
    "5 passed in 1.2s": (5, 0),
    "test result: FAILED. 4 passed; 1 failed; 0 ignored": (4, 1),
    "Tests:       1 failed, 5 passed, 6 total": (5, 1),
    "  12 passing (3s)\n  2 failing": (12, 2),
    "Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1)": (3, 2),
    "--- PASS: TestA (0.0s)\n--- FAIL: TestB (0.0s)\nFAIL\tx/y\t0.1s": (1, 2),
    "ok  \tx/y\t(cached)": (1, 0),
    "Tests run: 7, Failures: 1, Errors: 2, Skipped: 0": (4, 3),
    "3 examples, 1 failure": (2, 1),
    "no tests here": None,
}


@pytest.mark.parametrize("output", COUNTS)
def test_tests_are_counted(output):
    assert count_tests(output) == COUNTS[output]


@pytest.mark.parametrize(
    "unit", ["a", " ", "x:1: ", "error: ", "E   ", "at x (", "'", "/", "1 passed, ", "\x1b[", "a.b.", "A"]
)
def test_a_long_output_is_read_in_time(unit):
    start = time.thread_time()
    text = unit * (200_000 // len(unit))
    find_failures(text)
    find_failures(text.replace(" ", "\n"))
    count_tests(text)
    assert time.thread_time() - start < 8
