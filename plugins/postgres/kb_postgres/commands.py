"""The command `kb db partition`."""

from __future__ import annotations

from kb_framework.api.cli import Cli
from kb_framework.errors import ConfigInvalid, InvalidInput

_MAX_PARTITIONS = 128


def partition(number: int, /, *, cli: Cli) -> None:
    """Divide full text and vectors on PostgreSQL into partitions by organization; 1 makes plain tables of them again.

    It is done in one transaction, so what is interrupted has changed nothing. Engines and workers must be stopped meanwhile.

    Parameters
    ----------
    number
        How many partitions, up to 128.

    Examples
    --------
    kb db partition 8
    """
    from kb_framework.api.opening import open_kb

    if not 1 <= number <= _MAX_PARTITIONS:
        raise InvalidInput(
            f"the number of partitions is {number}; it must be from 1 to {_MAX_PARTITIONS}"
        )
    if cli.bootstrap.engine_url:
        raise ConfigInvalid(
            "partitions are made in the database itself, not through an engine",
            hint="unset KB_ENGINE_URL",
        )
    kb = open_kb(cli.bootstrap, cli.plugins)
    try:
        if kb.store.engine.name != "postgresql":
            raise ConfigInvalid(
                "a SQLite database has no partitions",
                hint="they are for PostgreSQL: set KB_DATABASE_URL, see docs/scaling.md",
            )
        from kb_postgres.repartition import partition as divide

        changed = divide(kb.store, number, lambda line: cli.say(f"kb: {line}"))
    finally:
        kb.close()
    shape = "plain tables" if number == 1 else f"{number} partitions"
    text = (
        f"full text and vectors are in {shape} now"
        if changed
        else f"full text and vectors are in {shape} already"
    )
    cli.result({"partitions": number, "changed": changed}, text)
