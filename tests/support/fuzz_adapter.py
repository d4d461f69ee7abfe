"""Coverage-guided fuzzing of one adapter: `python -m tests.support.fuzz_adapter NAME CORPUS -max_total_time=60`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["helix.sources"]):
    from helix.errors import InputRefused
    from helix.sources import registry as sources
    from helix.sources.common.decode import decode
    from helix.types import Document

FORMAT = sys.argv[1]


def one(data: bytes) -> None:
    """Decode, detect and parse; only a refusal is no fault."""
    try:
        text, _ = decode(data, 1 << 20)
    except InputRefused:
        return
    for format in (FORMAT, "auto"):
        try:
            parsed = sources.parse(Document("logs/fuzz.log", text), format)
        except InputRefused:
            continue
        for session in parsed.sessions:
            assert session.turns
            assert len({turn.id for turn in session.turns}) == len(session.turns)


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()
