"""R3: limits are counted in the store, over the last so many seconds, and say when there is room again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kb_research.limits import Limit

from kb_framework.app import KB, open_kb
from kb_framework.errors import TooManyRequests

MINUTE = [Limit(3, 60)]


@pytest.fixture
def kb(kb_home: Path) -> Iterator[KB]:
    found = open_kb()
    yield found
    found.close()


def test_r3_as_many_as_allowed_pass_and_the_next_is_told_when_to_come_back(kb: KB) -> None:
    for moment in (100.0, 110.0, 120.0):
        kb.services["limiter"].take("search", "ada", MINUTE, moment)

    with pytest.raises(TooManyRequests) as refused:
        kb.services["limiter"].take("search", "ada", MINUTE, 130.0)

    assert refused.value.details["retry_after"] == 30
    kb.services["limiter"].take("search", "ada", MINUTE, 160.0)


def test_r3_there_is_no_moment_at_which_twice_as_much_passes(kb: KB) -> None:
    for moment in (59.0, 59.1, 59.2):
        kb.services["limiter"].take("search", "ada", MINUTE, moment)

    with pytest.raises(TooManyRequests):
        kb.services["limiter"].take("search", "ada", MINUTE, 60.5)


def test_r3_what_was_refused_does_not_count(kb: KB) -> None:
    for moment in (100.0, 101.0, 102.0):
        kb.services["limiter"].take("search", "ada", MINUTE, moment)
    for _ in range(10):
        with pytest.raises(TooManyRequests):
            kb.services["limiter"].take("search", "ada", MINUTE, 150.0)

    kb.services["limiter"].take("search", "ada", MINUTE, 160.0)


def test_r3_people_and_routes_have_counters_of_their_own(kb: KB) -> None:
    for _ in range(3):
        kb.services["limiter"].take("search", "ada", MINUTE, 100.0)

    kb.services["limiter"].take("search", "ben", MINUTE, 100.0)
    kb.services["limiter"].take("add", "ada", MINUTE, 100.0)


def test_r3_several_limits_all_count(kb: KB) -> None:
    limits = [Limit(2, 60), Limit(3, 86_400)]
    for moment in (0.0, 100.0, 200.0):
        kb.services["limiter"].take("add", "ada", limits, moment)

    with pytest.raises(TooManyRequests) as refused:
        kb.services["limiter"].take("add", "ada", limits, 300.0)

    assert refused.value.details["retry_after"] == 86_100


def test_r3_zero_is_no_limit(kb: KB) -> None:
    for _ in range(10):
        kb.services["limiter"].take("search", "ada", [Limit(0, 60)], 100.0)


def test_r3_engines_on_one_store_count_together(kb: KB) -> None:
    other = open_kb()
    try:
        for limiter in (kb.services["limiter"], other.services["limiter"], kb.services["limiter"]):
            limiter.take("search", "ada", MINUTE, 100.0)
        with pytest.raises(TooManyRequests):
            other.services["limiter"].take("search", "ada", MINUTE, 101.0)
    finally:
        other.close()


def test_r3_old_uses_are_thrown_away(kb: KB) -> None:
    import sqlalchemy as sa
    from kb_research.limits import uses

    for _ in range(3):
        kb.services["limiter"].take("search", "ada", MINUTE, 100.0)
    kb.services["limiter"].take("search", "ben", MINUTE, 100_000.0)

    with kb.store.read() as tx:
        assert tx.scalar(sa.select(sa.func.count()).select_from(uses)) == 1
