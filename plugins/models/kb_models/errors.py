"""What can go wrong with an embedder that is somewhere else."""

from __future__ import annotations

from kb_framework.errors import EmbedderUnavailable


class EndpointFailed(EmbedderUnavailable):
    """An endpoint that did not answer, or not as it should: nothing was stored, and trying again may help."""

    http_status = 503
    exit_code = 3
