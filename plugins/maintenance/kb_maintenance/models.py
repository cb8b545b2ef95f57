"""The inputs and outputs of maintenance."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, RootModel

from kb_framework.api.models import Body, Model, Question, Text


class CheckResult(Model):
    name: str
    state: Literal["ok", "warning", "error"]
    message: str


class DoctorReport(Model):
    """What every check found; `status` is the worst of their states."""

    status: Literal["ok", "warning", "error"]
    checks: list[CheckResult]


class DoctorUnderway(Model):
    """How far a run is; of what has no known size `total` is null."""

    finished: Literal[False] = False
    what: str
    done: int
    total: int | None
    repairs: list[str]


class DoctorFinished(DoctorReport):
    """What was repaired, and the report afterwards."""

    finished: Literal[True] = True
    repairs: list[str]


class DoctorRun(RootModel[DoctorUnderway | DoctorFinished]):
    """A repair, or a check of everything: under way, or finished with its report."""


class ImportIn(Question):
    """An uploaded archive."""

    import_id: Annotated[str, Field(description="The id of the upload.")]


class ReindexIn(Body):
    embedder: (
        Annotated[
            Text, Field(min_length=1, description="Another embedder than the configured one.")
        ]
        | None
    ) = None


class Reindexed(Model):
    """How far it is. Ask again until it is finished; whoever asks goes on where the last one stopped."""

    finished: bool
    done: int
    total: int
    model: str | None
    hint: str | None = None


class IndexSize(Model):
    rows: int
    share_in_use: float
    bytes: int


class Compacted(Reindexed):
    before: IndexSize | None
    after: IndexSize | None


class Difference(Model):
    """How what an archive holds compares with what is here."""

    new: int = 0
    identical: int = 0
    different: int = 0


class Sample(Model):
    id: int
    title: str
    state: str


class Preview(Model):
    import_id: str
    documents: Difference
    chunks: Difference
    tables: dict[str, Difference]
    files: int
    # Columns and tables that nothing here knows: their plugin is not installed.
    ignored: list[str]
    sample: list[Sample]
    # Documents whose file is missing or damaged in the archive, and chunks with damaged text; all of them are added otherwise.
    damaged: list[str]


class Refused(Model):
    """A document of the archive that a plugin did not let in, and what it said."""

    id: int
    title: str
    error: str


class Imported(Model):
    """How far it is. Ask again until it is finished."""

    finished: bool
    done: int
    total: int
    documents: int
    chunks: int
    rows: dict[str, int]
    # Documents whose id was taken: the archive's id, and the new one.
    renumbered: dict[int, int]
    refused: list[Refused] = []
    hint: str | None = None
