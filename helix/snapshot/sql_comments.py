"""The meaning of every view of `helix sql` and of its columns, as comments of an exported file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TABLES: Final[Mapping[str, str]] = {
    "items": "Live items: turns, pieces of long turns, and sections of notes",
    "facts": "Facts that live items state, each with the time in which it holds",
    "entities": "Named things in live items: people, paths, errors, dates and others",
    "edges": "Edges from items to entities, items and sessions, and between the entities of a fact that holds",
    "sessions": "Sessions that have live items",
    "clusters": "Groups of near-duplicates; an item without one is in no group",
}
"""Every view."""

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "items": {
        "id": "hash of source, session, turn and piece",
        "source": "adapter that read the log",
        "path": "path of the log, as it was given",
        "document": "digest of the accepted document",
        "session": "the source's id of the conversation",
        "branch_of": "session that this one branched off",
        "turns": "the source's ids of the turns",
        "piece": "number of the piece of a long turn, from 0",
        "ord": "position in the session, from 0",
        "speaker": "name of the speaker",
        "role": "user, assistant, tool, system or document",
        "origin": "human, assistant, tool, runtime_context, summary, subagent or document",
        "title": "title of the session, or heading of the section",
        "text": "the text, with secrets redacted",
        "type": "episodic, semantic, procedural, decision or code",
        "type_confidence": "confidence of the type, 0 to 1",
        "project": "the project",
        "workspace": "folder of the session, and what is known of its repository, as a JSON list; null: nothing",
        "time": "time of the turn",
        "time_quality": "exact, derived (a date, an offset, the session's other turns), file (its last change), none",
        "t_valid": "from when on the item holds",
        "t_invalid": "since when it no longer holds",
        "t_ingested": "when its document was accepted",
        "salience": "how much it is worth remembering, 0 to 1",
        "confidence": "how far its source is to be trusted, 0 to 1",
        "priority": "priority that the input gave, 1 to 2",
        "pinned": "whether the input pinned it",
        "acl": "principals that may read it; empty: all readers of the project",
        "tokens": "length in tokens of the encoder",
        "content": "hash of the content; equal contents have equal hashes",
        "near": "id of the earlier item that it nearly repeats",
        "vouched": "source of its confidence",
        "salience_parts": "the summands of its salience",
        "queries": "questions that doc2query wrote for it",
    },
    "facts": {
        "subject": "subject, as written",
        "relation": "relation",
        "object": "object, as written",
        "qualifier": "purpose of a tool, file of a setting, alternative of a preference, or an empty text",
        "t_valid": "from when on the fact holds",
        "t_invalid": "since when it no longer holds; null: it holds",
        "t_ingested": "when the document that states it was accepted",
        "item": "id of the item that states it",
        "project": "the project",
        "confidence": "how far it is to be trusted, 0 to 1",
        "said": "the sentence that states it",
        "reason": "the reason that the sentence gives, or an empty text",
        "subject_entity": "hash of the subject's entity, as a number",
        "object_entity": "hash of the object's entity, as a number; 0: the object is no entity",
        "id": "hash of item, subject, relation and object",
    },
    "entities": {
        "kind": "person, place, path, error, date and others",
        "key": "normalised name; kind and key identify the entity",
        "name": "its most frequent spelling",
        "hash": "hash of kind and key, as edges.dst has it",
        "items": "number of live items that mention it",
        "evergreen": "whether it is a person, a place or a relationship",
    },
    "edges": {
        "src": "id of an item; of a fact: hash of the subject's entity",
        "kind": "mentions, next, session, reply, same or fact",
        "dst": "mentions: hash of an entity; session: key of a session; fact: the object's entity; else an item",
        "weight": "weight of the edge; of a fact its confidence",
    },
    "sessions": {
        "source": "adapter that read the log",
        "session": "the source's id of the conversation",
        "key": "hash of source and session, as edges.dst has it",
        "title": "its newest title",
        "projects": "projects of its items",
        "first_time": "time of its first item",
        "last_time": "time of its last item",
        "items": "number of live items",
        "turns": "number of distinct turns",
        "speakers": "names of its speakers",
    },
    "clusters": {
        "representative": "id of the first item",
        "items": "number of items, the first included",
        "repeated": "ids of the others",
    },
}
"""Every column of every view."""
