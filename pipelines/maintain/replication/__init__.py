"""Machines without a common folder: each accepts and enriches, and one of them, the primary, commits.

They meet at HELIX_SHARE; `helix.snapshot.replication.share` describes its objects. A member offers the documents it
accepts, fetches those it enriches with their predecessors, and hands in its parts. The primary collects, commits and
publishes. Each step first looks at what the share holds, so the next `keep_up` repeats whatever was interrupted.
"""
