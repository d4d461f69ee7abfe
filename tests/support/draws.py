"""How many examples Hypothesis draws: by profile, and fewer where one example is slow.

`pytest --hypothesis-profile quick|full|soak` chooses the profile; `full` is the default.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import HealthCheck, settings

EXAMPLES: Final = {"quick": 20, "full": 100, "soak": 1_000}


def register_profiles() -> None:
    """Register the profiles and load the default one."""
    for name, examples in EXAMPLES.items():
        settings.register_profile(name, max_examples=examples, deadline=None, print_blob=True)
    settings.load_profile("full")


def draw_share(share: float, *suppressed: HealthCheck) -> Any:
    """Decorate a test whose examples are slow, or quick: it draws this share of the profile's, at least two."""
    examples = max(2, round(settings.default.max_examples * share))
    return settings(max_examples=examples, suppress_health_check=suppressed)
