"""For plugins that call operations by other ways than the host's edges."""

from __future__ import annotations

from kb_framework.operations import explained as explained
from kb_framework.operations import from_texts as from_texts
from kb_framework.operations import type_of as type_of
from kb_framework.operations import unexpected as unexpected
