"""HTTP: the files of a folder, compared with what is known of them; apart, so that an unchanged folder imports no more."""

from __future__ import annotations

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.status_codes import HTTP_200_OK

from kb_documents import source_models as models
from kb_documents.sources import SourcesService
from kb_framework.api import Actor


@post("/sources/compare", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "documents.read"})
def compare_sources(
    data: JSONBody[models.SourcesIn], source_files: NamedDependency[SourcesService], actor: NamedDependency[Actor]
) -> models.SourcesOut:
    """Which files of a folder are new, changed or gone, judged by their size and time of change."""
    return source_files.compare(data, actor)


@post("/sources/forget", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "documents.delete"})
def forget_sources(
    data: JSONBody[models.ForgetIn], source_files: NamedDependency[SourcesService], actor: NamedDependency[Actor]
) -> models.ForgetOut:
    """Let go of files that vanished; documents without any other source are deleted, under the safety threshold."""
    return source_files.forget(data, actor)


handlers = [compare_sources, forget_sources]
