"""Every hook with its whole contract: start reading here.

A plugin may bring hooks of its own (`kb_hookspecs`): those of the built-in plugins are in their `hookspecs.py`.

Two kinds. A *registration* hook is asked once, at start, and returns frozen descriptions; names are unique across plugins
and a clash is an error that names both. An *in-flight* hook is called while an operation runs.
Implementations may leave out parameters they do not need.
"""

from __future__ import annotations

from kb_framework.api.hooks import MARK as MARK
from kb_framework.api.hooks import PROJECT as PROJECT
from kb_framework.api.hooks import hookimpl as hookimpl
from kb_framework.api.hooks import hookspec as hookspec
from kb_framework.api.hooks import registration as registration
from kb_framework.hookspecs.in_flight import kb_apply_mutation as kb_apply_mutation
from kb_framework.hookspecs.in_flight import kb_authenticate as kb_authenticate
from kb_framework.hookspecs.in_flight import kb_documents_changed as kb_documents_changed
from kb_framework.hookspecs.in_flight import kb_fuse_hits as kb_fuse_hits
from kb_framework.hookspecs.in_flight import kb_guard_mutation as kb_guard_mutation
from kb_framework.hookspecs.in_flight import kb_keys_used as kb_keys_used
from kb_framework.hookspecs.in_flight import kb_mutation_applied as kb_mutation_applied
from kb_framework.hookspecs.in_flight import kb_narrow_retrieval as kb_narrow_retrieval
from kb_framework.hookspecs.in_flight import kb_narrow_selection as kb_narrow_selection
from kb_framework.hookspecs.in_flight import kb_serving as kb_serving
from kb_framework.hookspecs.registering import kb_chunk_columns as kb_chunk_columns
from kb_framework.hookspecs.registering import kb_commands as kb_commands
from kb_framework.hookspecs.registering import kb_file_stores as kb_file_stores
from kb_framework.hookspecs.registering import kb_hookspecs as kb_hookspecs
from kb_framework.hookspecs.registering import kb_migrations as kb_migrations
from kb_framework.hookspecs.registering import kb_mutation_kinds as kb_mutation_kinds
from kb_framework.hookspecs.registering import kb_operations as kb_operations
from kb_framework.hookspecs.registering import kb_permissions as kb_permissions
from kb_framework.hookspecs.registering import kb_rerankers as kb_rerankers
from kb_framework.hookspecs.registering import kb_retrievers as kb_retrievers
from kb_framework.hookspecs.registering import kb_routes as kb_routes
from kb_framework.hookspecs.registering import kb_selection_filters as kb_selection_filters
from kb_framework.hookspecs.registering import kb_services as kb_services
from kb_framework.hookspecs.registering import kb_settings as kb_settings
from kb_framework.hookspecs.registering import kb_stores as kb_stores
from kb_framework.hookspecs.registering import kb_tools as kb_tools
from kb_framework.hookspecs.registering import kb_wire_objects as kb_wire_objects
