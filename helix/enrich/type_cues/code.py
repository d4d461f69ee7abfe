"""Cues of code, logs and error output."""

from __future__ import annotations

from typing import Final

from helix.enrich.type_cues.cue import make_cue, make_word_cue

CODE: Final = (
    make_cue("code", 0.35, "```|~~~", r"\n\s{0,8}(?:```|~~~)"),
    make_cue("code", 0.25, "```|~~~", r"\n\s{0,8}(?:```|~~~)[\w+-]+\s*$"),
    make_cue("code", 0.65, "", r"\n(?:diff --git|@@ -\d|\+\+\+ |--- a/|<{7} |>{7} |#!/)", raw=True),
    make_cue(
        "code",
        0.65,
        'Traceback|File "|Error|Exception|  at |\tat |error|fatal: |warning: |WARN|INFO|ERROR|DEBUG',
        r"\n[ \t]{0,40}(?:Traceback \(most recent|File \".+\", line \d|(?:Uncaught )?[\w.]{1,80}(?:Error|"
        r"Exception)[:( ]|at \S+ ?\(.+:\d|error(?:\[E\d|:)|fatal: |warning: |\[?(?:WARN|INFO|ERROR|"
        r"DEBUG)(?:ING)?\]?[ :]|npm ERR!)",
        r"\n\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S{0,20} \[?(?:WARN|INFO|ERROR|DEBUG)",
        raw=True,
    ),
    make_cue(
        "code",
        0.6,
        "",
        r"\n[ \t]{0,40}(?:def \w+\(|class \w+[(:{]|(?:async )?function\b.*\(|func [\w(]|(?:pub )?fn \w+|"
        r"import [\w.{\"]+$|from [\w.]+ import|#include|package \w+;?$|(?:export )?const \w+ =|let \w+ =|(?:public|"
        r"private|static) \w+ \w+[ ({=])",
        r"\n(?:SELECT [^\n]{1,200}|CREATE (?:TABLE|INDEX)|ALTER TABLE|INSERT INTO|UPDATE \w+ SET)",
        raw=True,
    ),
    make_word_cue(
        "code",
        0.5,
        "denied exit exited passed failed dumped branch matches bash zsh sh directory",
        r"(?:command not found|permission denied|no such file)\s",
        r"exit(?:ed with)? (?:code|status) \d|(?:passed|failed)(?:, \d| in \d)|core dumped",
        r"on branch \S+\n|no matches found\s*$",
    ),
    make_cue("code", 0.5, "rw-|├──|└──|-+-", r"\n[d-][rwx-]{9}|[├└]──|-{2,}\+-{2,}"),
    make_cue(
        "code", 0.5, "", r"\n[\w./-]{2,120}:\d+:\d*:? ?", r"\n\[[\w.-]+\]$", r"\n\w{2,40} ?= ?\S+$", r"\n[\w.-]{2,40}:$"
    ),
    make_cue("code", 0.5, "\n+|\n-", r"(?:\n[+-](?:\t| {3})[^\n]{0,300}){2}"),
    make_cue("code", 0.3, ";|{|}", r"[;{}]\s*$"),
    make_cue("code", 0.45, "→|\t|: ", r"\n\s{0,8}\d+(?:→|\t|: ?\t)"),
    make_cue("code", 0.2, "/", r"/[\w.-]{1,80}/(?:[\w.-]{1,80}/){0,18}[\w.-]{1,80}\.\w{1,5}\b"),
)
