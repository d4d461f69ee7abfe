"""DuckDB over a snapshot's Parquet. It is the engine, never the store: always in memory, always on a leash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from helix.snapshot.manifest import Deletes, Segment


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB with bounded memory that fetches no extension from anywhere."""
    return duckdb.connect(
        config={
            "memory_limit": "2GB",
            "threads": 2,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


_EMPTY = """
CREATE VIEW published AS
SELECT ''::VARCHAR AS id, '' AS content, 0 AS t_ingested, '' AS source, '' AS session, '' AS type, '' AS project,
       '' AS segment, 0 AS row WHERE false
"""


def register_published(
    db: duckdb.DuckDBPyConnection, root: Path, segments: Sequence[Segment], deletes: Sequence[Deletes]
) -> None:
    """The view `published`: every live item, with the segment and the row it stands in; t_ingested in microseconds."""
    if not segments:
        db.execute(_EMPTY)
        return
    files = [str(root / "segments" / segment.id / "items.parquet") for segment in segments]
    db.register("files", pa.table({"file": files, "segment": [segment.id for segment in segments]}))
    rows = [np.load(root / entry.file.path) for entry in deletes]
    gone = pa.table(
        {
            "segment": pa.array(
                [entry.segment for entry, array in zip(deletes, rows, strict=True) for _ in range(len(array))],
                pa.string(),
            ),
            "row": pa.array(np.concatenate([*rows, np.empty(0, np.uint32)]).astype(np.int64)),
        }
    )
    db.register("gone", gone)
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
    db.execute(
        f"""
        CREATE VIEW published AS
        SELECT id, content, epoch_us(t_ingested) AS t_ingested, source, session, type, project, segment,
               file_row_number AS row
        FROM read_parquet([{names}], filename = true, file_row_number = true) JOIN files ON filename = file
        WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.segment = files.segment AND gone.row = file_row_number)
        """
    )
