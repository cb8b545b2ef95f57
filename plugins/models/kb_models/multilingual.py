"""The embedder for many languages: a model that `kb models install multilingual` puts in place."""

from __future__ import annotations

from functools import cached_property

from kb_framework.api.parts import HostSettings
from kb_models.catalogue import MULTILINGUAL
from kb_models.onnx_model import OnnxModel, missing_packages


class Multilingual:
    model = "multilingual/use-v3-int8"
    dimensions = MULTILINGUAL.dimensions
    languages = frozenset(
        {"ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"}
    )

    def __init__(self, host_settings: HostSettings) -> None:
        self._data_dir = host_settings.data_dir

    @property
    def problem(self) -> str | None:
        return MULTILINGUAL.problem(self._data_dir) or missing_packages(takes_text=True)

    def encode(self, texts: list[str]) -> list[bytes]:
        return self._onnx.encode(texts)

    @cached_property
    def _onnx(self) -> OnnxModel:
        return OnnxModel(MULTILINGUAL.path(self._data_dir))
