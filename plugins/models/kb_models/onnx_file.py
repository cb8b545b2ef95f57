"""An embedder from a person's own ONNX file."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

from kb_models.onnx_model import OnnxModel, missing_packages
from kb_models.settings import EmbeddingsSettings

_SAMPLES = 16
_SAMPLE_BYTES = 1 << 16


class OnnxFile:
    def __init__(self, embeddings_settings: EmbeddingsSettings) -> None:
        settings = embeddings_settings
        self._file = settings.onnx_file.expanduser() if settings.onnx_file else None
        self._tokenizer = settings.tokenizer_file.expanduser() if settings.tokenizer_file else None

    @property
    def problem(self) -> str | None:
        if self._file is None:
            return "the embedder 'onnx' needs KB_EMBEDDINGS_ONNX_FILE"
        for variable, file in (("ONNX_FILE", self._file), ("TOKENIZER_FILE", self._tokenizer)):
            if file and not file.is_file():
                return f"there is no file {file} (KB_EMBEDDINGS_{variable})"
        return missing_packages(takes_text=self._tokenizer is None)

    @cached_property
    def model(self) -> str:
        """The file's name and a digest: another file under the same name is another model."""
        assert self._file
        return f"onnx:{self._file.name}:{_fingerprint(self._file, self._tokenizer)}"

    @property
    def dimensions(self) -> int:
        return self._onnx.dimensions

    def encode(self, texts: list[str]) -> list[bytes]:
        return self._onnx.encode(texts)

    @cached_property
    def _onnx(self) -> OnnxModel:
        assert self._file
        return OnnxModel(self._file, self._tokenizer)


def _fingerprint(file: Path, tokenizer: Path | None) -> str:
    """A digest of samples: reading gigabytes of weights would cost every search seconds, and training changes them all."""
    # Large models keep their weights in a second file.
    weights = [file.with_name(file.name + suffix) for suffix in ("_data", ".data")]
    digest = hashlib.sha256()
    for path in [
        file,
        *(path for path in weights if path.is_file()),
        *([tokenizer] if tokenizer else []),
    ]:
        size = path.stat().st_size
        digest.update(f"{size}\n".encode())
        with path.open("rb") as opened:
            for number in range(_SAMPLES):
                opened.seek(number * max(size - _SAMPLE_BYTES, 0) // (_SAMPLES - 1))
                digest.update(opened.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]
