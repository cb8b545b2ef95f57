"""The entry point of kb-ocr: two extractors that are used where no other finds text."""

from __future__ import annotations

from kb_framework import api, hookimpl

# Below the built-in extractors, which have 0: text that a file already has is never recognised again.
_LAST = -100


@hookimpl
def kb_extractors() -> list[api.Extractor]:
    return [
        api.Extractor("scanned-pdf", "kb_ocr.extract:pdf", "pdf", (".pdf",), _LAST),
        api.Extractor("image", "kb_ocr.extract:image", "image", (), _LAST),
    ]
