"""Sets of conversations: LoCoMo, BEAM, LongMemEval and QMSum."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from helix.util.wordlists import read_toml
from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, turn_key, write_lines

# LoCoMo (Maharana et al. 2024): `locomo10.json`, long conversations of two people over many sessions.


KINDS = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"}

# Some evidence is mistyped: `D8:6; D9:17` and `D9:1 D4:4` in one, `D:11:26`, `D30:05`.
_EVIDENCE = re.compile(r"D:?0{0,9}(\d{1,9}):0{0,9}(\d{1,9})")


def convert_locomo(path: Path, folder: Path, name: str) -> Benchmark:
    """Write a file for each conversation; a caption replaces a picture, as with the benchmark's authors.

    Evidence that names no turn of its conversation is dropped and counted; questions whose evidence is known to name
    other turns than the answer's are marked.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    unknown = 0
    for conversation in orjson.loads(path.read_bytes()):
        lines = list(_read_locomo(conversation))
        documents.append(write_lines(folder / f"{conversation['sample_id']}.jsonl", lines))
        place = {line["id"]: turn_key(line["session"], line["id"]) for line in lines}
        doubted = read_toml("pipelines.eval", "locomo_doubted").get(conversation["sample_id"], ())
        for i, entry in enumerate(conversation["qa"]):
            gold, lost = _resolve_evidence(entry.get("evidence") or (), place)
            unknown += lost
            kind = str(entry.get("category", ""))
            kind = KINDS.get(kind, kind)
            asked = Question(conversation["sample_id"], entry["question"], gold, kind, doubted=i in doubted)
            questions.append(asked)
    return Benchmark(
        tuple(documents),
        tuple(questions),
        notes=count_note(unknown, "pieces of evidence name no turn and were dropped"),
    )


def _resolve_evidence(evidence: Sequence[str], place: Mapping[str, str]) -> tuple[frozenset[str], int]:
    """Return the gold turns that evidence names, and the number of pieces that name none."""
    gold: set[str] = set()
    lost = 0
    for piece in evidence:
        ids = [f"D{match[1]}:{match[2]}" for match in _EVIDENCE.finditer(piece)]
        gold.update(place[identity] for identity in ids if identity in place)
        lost += sum(identity not in place for identity in ids) if ids else 1
    return frozenset(gold), lost


def _read_locomo(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name, talk = conversation["sample_id"], conversation["conversation"]
    for number in range(1, 100):
        for i, entry in enumerate(talk.get(f"session_{number}") or ()):
            time = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
            yield {
                "session": f"{name}/{number}",
                "id": entry["dia_id"],
                "speaker": entry["speaker"],
                "text": entry["text"] + (f" [shares {entry['blip_caption']}]" if entry.get("blip_caption") else ""),
                "ts": time.replace(second=min(i, 59), tzinfo=UTC).isoformat(),
                "project": name,
            }


# BEAM (Tavakoli et al. 2025): a folder with numbered chats of a user and an assistant.


CHANGING = ("knowledge_update", "contradiction_resolution")
"""Kinds of BEAM's questions whose answer is in the newest piece of the evidence."""


def convert_beam(path: Path, folder: Path, name: str) -> Benchmark:
    """Write a file for each chat; each batch is a session, dated by its time anchor."""
    chats = sorted((entry for entry in path.iterdir() if (entry / "chat.json").is_file()), key=lambda entry: entry.name)
    documents: list[Path] = []
    questions: list[Question] = []
    unanswerable: list[Question] = []
    unknown = 0
    for chat in chats:
        project = f"chat-{chat.name}"
        lines = list(_read_chat(project, orjson.loads((chat / "chat.json").read_bytes())))
        documents.append(write_lines(folder / f"{project}.jsonl", lines))
        place = {line["id"]: turn_key(line["session"], line["id"]) for line in lines}
        said = [place[line["id"]] for line in lines if line["role"] in ("user", "assistant")]
        probes = orjson.loads((chat / "probing_questions" / "probing_questions.json").read_bytes())
        for kind, entries in probes.items():
            for entry in entries:
                ids = _flatten_ids(entry.get("source_chat_ids"))
                gold = frozenset(place[identity] for identity in ids if identity in place)
                unknown += sum(identity not in place for identity in ids)
                newest = next((turn for turn in reversed(said) if kind in CHANGING and turn in gold), None)
                question = Question(project, entry["question"], gold, kind, newest=newest)
                questions.append(question)
                unanswerable += [question] if kind == "abstention" and not gold else []
    return Benchmark(
        tuple(documents),
        tuple(questions),
        notes=count_note(unknown, "source ids name no message and were dropped"),
        unanswerable=tuple(unanswerable),
    )


def _read_chat(name: str, batches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    anchor: datetime | None = None
    for batch in batches:
        for group in batch["turns"]:
            for message in group if isinstance(group, list) else [group]:
                anchor = _parse_anchor(message.get("time_anchor")) or _parse_anchor(batch.get("time_anchor")) or anchor
                line = {
                    "session": f"{name}/{batch['batch_number']}",
                    "id": str(message["id"]),
                    "role": message["role"],
                    "text": message["content"].split("->->")[0].strip(),  # the authors' own numbering follows
                    "project": name,
                }
                yield {**line, "ts": anchor.isoformat()} if anchor else line


def _parse_anchor(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _flatten_ids(raw: Any) -> list[str]:
    """Return message ids at any depth: a list, or lists by name."""
    if isinstance(raw, (dict, list)):
        values = raw.values() if isinstance(raw, dict) else raw
        return [identity for value in values for identity in _flatten_ids(value)]
    return [] if raw is None else [str(raw)]


# LongMemEval (Wu et al. 2025): a JSON list of questions, each with a haystack of chats with an assistant.


ABSTENTION = "_abs"  # ends the id of a question without an answer


def convert_longmemeval(path: Path, folder: Path, name: str) -> Benchmark:
    """Write a file for each haystack, a project of its own: sessions have its name, as several haystacks share a chat.

    A turn's id is its place in its session, from 0; a question has its date. Gold are the turns marked `has_answer`.
    Without one, all the user's turns of the answer sessions are gold, which hold the evidence for all kinds of
    questions but one. A note has the number of such questions.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    abstentions = unmarked = 0
    for entry in orjson.loads(path.read_bytes()):
        if str(entry["question_id"]).endswith(ABSTENTION):
            abstentions += 1
            continue
        project = str(entry["question_id"])
        turns = list(_read_turns(project, entry))
        documents.append(write_lines(folder / f"{len(documents):05}.jsonl", (line for line, *_ in turns)))
        marked = [line for line, is_answer, _ in turns if is_answer]
        if not marked:
            marked = [line for line, _, in_answer in turns if in_answer and line["role"] == "user"]
            unmarked += bool(marked)
        gold = frozenset(turn_key(line["session"], line["id"]) for line in marked)
        at = _parse_date(entry.get("question_date"))
        questions.append(Question(project, entry["question"], gold, str(entry.get("question_type", "")), at=at))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        {"abstention": abstentions} if abstentions else {},
        count_note(unmarked, "questions have no marked turn: the user's turns of their answer sessions are gold"),
    )


def _read_turns(project: str, entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool, bool]]:
    """Yield a turn for the ingest, with two flags: it is marked as an answer; its session is an answer session."""
    sessions, ids = entry["haystack_sessions"], entry["haystack_session_ids"]
    dates = entry.get("haystack_dates") or [None] * len(ids)
    answering = set(entry.get("answer_session_ids") or ())
    seen: Counter[str] = Counter()
    for identity, date, turns in zip(ids, dates, sessions, strict=True):
        seen[identity] += 1
        session = f"{project}/{identity}" + (f"#{seen[identity]}" if seen[identity] > 1 else "")
        start = _parse_date(date)
        for i, turn in enumerate(turns):
            text = (turn.get("content") or "").strip()
            if not text:
                continue
            line = {"session": session, "id": str(i), "role": turn["role"], "text": text, "project": project}
            time = {"ts": (start + timedelta(seconds=i)).isoformat()} if start else {}
            yield {**line, **time}, turn.get("has_answer") is True, identity in answering


def _parse_date(text: str | None) -> datetime | None:
    """Parse `2023/05/30 (Tue) 23:40` as UTC; the hour is optional. Return None for other text."""
    day, _, hour = (text or "").partition("(")
    hour = hour.partition(")")[2].strip() or "00:00"
    try:
        return datetime.strptime(f"{day.strip()} {hour}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
    except ValueError:
        return None


# QMSum (Zhong et al. 2021): meetings, and queries about them with the spans of turns that answer. A file is one
# meeting, or several as JSON lines or a list; a folder holds such files, or its authors' split `test`.


def convert_qmsum(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file, a session and a project of each meeting; a turn's id is its place in the transcript, from 0.

    A general query is about the whole meeting and has no span: it is left out.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    general = wrong = 0
    for meeting, content in _read_meetings(path):
        turns = content["meeting_transcripts"]
        texts = [(entry.get("content") or "").strip() for entry in turns]
        lines = [
            {"session": meeting, "id": str(i), "speaker": turns[i]["speaker"], "text": text, "project": meeting}
            for i, text in enumerate(texts)
            if text
        ]
        documents.append(write_lines(folder / f"{len(documents):05}.jsonl", lines))
        general += len(content.get("general_query_list") or ())
        for entry in content.get("specific_query_list") or ():
            places, lost = _resolve_spans(entry.get("relevant_text_span") or (), len(texts))
            wrong += lost
            gold = frozenset(turn_key(meeting, i) for i in places if texts[i])
            questions.append(Question(meeting, entry["query"], gold))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        {"general query": general} if general else {},
        count_note(wrong, "spans leave their transcript and were cut or dropped"),
    )


def _read_meetings(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and content of each; meetings of one file are numbered."""
    files = [path]
    if path.is_dir():
        path = path / "test" if (path / "test").is_dir() else path
        files = [path / "test.jsonl"] if (path / "test.jsonl").is_file() else []
        files = sorted(path.glob("*.json")) or files or sorted(path.glob("*.jsonl"))
        if not files:
            raise FileNotFoundError("no *.json and no *.jsonl")
    for file in files:
        contents = _read_contents(file)
        for i, content in enumerate(contents):
            yield (file.stem if len(contents) == 1 else f"{file.stem}-{i}"), content


def _read_contents(file: Path) -> list[dict[str, Any]]:
    raw = file.read_bytes()
    if file.suffix == ".jsonl":
        return [orjson.loads(line) for line in raw.splitlines() if line.strip()]
    content = orjson.loads(raw)
    return content if isinstance(content, list) else [content]


def _resolve_spans(spans: Sequence[Sequence[str]], n: int) -> tuple[set[int], int]:
    """Return the turns within the spans, ends included, and the number of spans that leave n turns."""
    places: set[int] = set()
    wrong = 0
    for first, last in spans:
        low, high = sorted((int(first), int(last)))
        wrong += low < 0 or high >= n
        places.update(range(max(low, 0), min(high, n - 1) + 1))
    return places, wrong
