"""What plugins import: this package and its modules, `kb_framework.errors` and `kb_framework.hookimpl`.

Here is what every command needs: descriptions, what hooks receive and return, and types; nothing heavy is imported for it. The
modules beside it have the rest, each by what it is for and what importing it costs.

A `target` is an import path, `"package.module:attribute"`, resolved only when it is needed, so that a plugin's entry point costs
nothing at start.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kb_framework.api.descriptors import BuiltInRole as BuiltInRole
from kb_framework.api.descriptors import Check as Check
from kb_framework.api.descriptors import ChunkColumn as ChunkColumn
from kb_framework.api.descriptors import Chunker as Chunker
from kb_framework.api.descriptors import Command as Command
from kb_framework.api.descriptors import Embedder as Embedder
from kb_framework.api.descriptors import ExportTable as ExportTable
from kb_framework.api.descriptors import Extractor as Extractor
from kb_framework.api.descriptors import FileStore as FileStore
from kb_framework.api.descriptors import Flag as Flag
from kb_framework.api.descriptors import Generator as Generator
from kb_framework.api.descriptors import Hookspecs as Hookspecs
from kb_framework.api.descriptors import Migration as Migration
from kb_framework.api.descriptors import MutationKind as MutationKind
from kb_framework.api.descriptors import Over as Over
from kb_framework.api.descriptors import Permission as Permission
from kb_framework.api.descriptors import Profile as Profile
from kb_framework.api.descriptors import Reranker as Reranker
from kb_framework.api.descriptors import ResearchSource as ResearchSource
from kb_framework.api.descriptors import Retriever as Retriever
from kb_framework.api.descriptors import Routes as Routes
from kb_framework.api.descriptors import Seldom as Seldom
from kb_framework.api.descriptors import SelectionFilter as SelectionFilter
from kb_framework.api.descriptors import Service as Service
from kb_framework.api.descriptors import SettingsSection as SettingsSection
from kb_framework.api.descriptors import Store as Store
from kb_framework.api.descriptors import StoreLocation as StoreLocation
from kb_framework.api.descriptors import Tool as Tool
from kb_framework.api.descriptors import WireObject as WireObject
from kb_framework.api.nouns import ANY_KEY as ANY_KEY
from kb_framework.api.nouns import DEFAULT_ORGANIZATION as DEFAULT_ORGANIZATION
from kb_framework.api.nouns import EVERYTHING as EVERYTHING
from kb_framework.api.nouns import LOCAL_USER as LOCAL_USER
from kb_framework.api.nouns import PUBLIC as PUBLIC
from kb_framework.api.nouns import READER_HEADER as READER_HEADER
from kb_framework.api.nouns import Actor as Actor
from kb_framework.api.nouns import Answer as Answer
from kb_framework.api.nouns import Attachment as Attachment
from kb_framework.api.nouns import Candidate as Candidate
from kb_framework.api.nouns import Changes as Changes
from kb_framework.api.nouns import ChunkText as ChunkText
from kb_framework.api.nouns import Credentials as Credentials
from kb_framework.api.nouns import Extracted as Extracted
from kb_framework.api.nouns import Finding as Finding
from kb_framework.api.nouns import Hit as Hit
from kb_framework.api.nouns import Level as Level
from kb_framework.api.nouns import MutationResult as MutationResult
from kb_framework.api.nouns import Objection as Objection
from kb_framework.api.nouns import Plan as Plan
from kb_framework.api.nouns import Progress as Progress
from kb_framework.api.nouns import Reader as Reader
from kb_framework.api.nouns import Rejection as Rejection
from kb_framework.api.nouns import ResearchQuery as ResearchQuery
from kb_framework.api.nouns import ResearchResult as ResearchResult
from kb_framework.api.nouns import RetrievalQuery as RetrievalQuery
from kb_framework.api.nouns import Sampled as Sampled
from kb_framework.api.nouns import ScoredChunk as ScoredChunk
from kb_framework.api.nouns import Selection as Selection
from kb_framework.api.operation import Download as Download
from kb_framework.api.operation import Http as Http
from kb_framework.api.operation import Operation as Operation
from kb_framework.api.operation import Upload as Upload
from kb_framework.api.pages import Call as Call
from kb_framework.api.pages import Page as Page
from kb_framework.api.pages import PageAsset as PageAsset
from kb_framework.api.pages import PageTarget as PageTarget
from kb_framework.api.pages import Panel as Panel
from kb_framework.api.pages import PanelTarget as PanelTarget
from kb_framework.api.pages import Slot as Slot
from kb_framework.api.protocols import AdaptFunction as AdaptFunction
from kb_framework.api.protocols import Ask as Ask
from kb_framework.api.protocols import CheckObject as CheckObject
from kb_framework.api.protocols import ChunkerFunction as ChunkerFunction
from kb_framework.api.protocols import EmbedderObject as EmbedderObject
from kb_framework.api.protocols import ExtractorFunction as ExtractorFunction
from kb_framework.api.protocols import GeneratorObject as GeneratorObject
from kb_framework.api.protocols import MigrationFunction as MigrationFunction
from kb_framework.api.protocols import MutationObject as MutationObject
from kb_framework.api.protocols import RerankerObject as RerankerObject
from kb_framework.api.protocols import ResearchSourceObject as ResearchSourceObject
from kb_framework.api.protocols import RetrieverObject as RetrieverObject
from kb_framework.api.protocols import Sample as Sample


def resolve(target: str) -> Any:
    """Return the object behind an import path."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
