"""Running a sentence-embedding model from an ONNX file.

Texts are run one by one, in threads: a batch is slower on a processor than that, and what else is in a batch changes the
vectors of quantised models.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from kb_framework.api.messages import install_command
from kb_framework.errors import EmbedderUnavailable

# For models that cut texts into tokens themselves: more says nothing new about a chunk, and costs time by its square.
_MAX_CHARACTERS = 8000
# Where a tokenizer does not say how much its model takes.
_MAX_TOKENS = 512
_CHARACTERS_PER_TOKEN = 20
# Among several outputs, the one that is already a text's vector.
_SENTENCE = "sentence_embedding"


def missing_packages(*, takes_text: bool) -> str | None:
    """What to install before such a model can run."""
    needed = ["onnxruntime", "onnxruntime_extensions" if takes_text else "tokenizers"]
    missing = [name for name in needed if find_spec(name) is None]
    return f"{' and '.join(missing)} not installed: {install_command('onnx')}" if missing else None


def import_runtime() -> Any:
    """Import onnxruntime with its telemetry off: it would write a device id into the home folder and resolve a remote host.

    The variable must be set before the import, which starts the telemetry thread. The call covers versions without it.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


class OnnxModel:
    """A model that is loaded when first used; without a tokenizer it must take texts as they are."""

    def __init__(self, file: Path, tokenizer_file: Path | None = None) -> None:
        self._file = file
        self._tokenizer_file = tokenizer_file
        self._lock = Lock()
        self._session: Any = None
        self._tokenizer: Any = None
        self._width: int | None = None

    @property
    def dimensions(self) -> int:
        if self._width is None:
            declared = self._output(self._loaded()).shape[-1:]
            self._width = int(
                declared[0] if declared and isinstance(declared[0], int) else len(self._run("a"))
            )
        return self._width

    def encode(self, texts: list[str]) -> list[bytes]:
        """A unit vector per text; zeros for a text without content."""
        if len(texts) < 2:
            return [self._encode(text) for text in texts]
        self._loaded()
        with ThreadPoolExecutor(min(len(texts), os.cpu_count() or 1), "onnx") as pool:
            return list(pool.map(self._encode, texts))

    def _encode(self, text: str) -> bytes:
        import numpy as np

        if not text.strip():
            return bytes(4 * self.dimensions)
        vector = self._run(text)
        norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm):
            raise self._unusable("gave a vector that is not made of finite numbers")
        return (vector / (norm or 1.0)).astype("<f4").tobytes()

    # Loading

    def _loaded(self) -> Any:
        with self._lock:
            if self._session is None:
                self._session = self._load()
            return self._session

    def _load(self) -> Any:
        takes_text = self._tokenizer_file is None
        if missing := missing_packages(takes_text=takes_text):
            raise EmbedderUnavailable(missing)
        onnxruntime = import_runtime()
        options = onnxruntime.SessionOptions()
        # The threads are ours, one text each.
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        try:
            if self._tokenizer_file:
                from tokenizers import Tokenizer

                self._tokenizer = Tokenizer.from_file(str(self._tokenizer_file))
                self._tokenizer.no_padding()
                if self._tokenizer.truncation is None:
                    self._tokenizer.enable_truncation(_MAX_TOKENS)
            else:
                from onnxruntime_extensions import get_library_path

                options.register_custom_ops_library(get_library_path())
            session = onnxruntime.InferenceSession(
                str(self._file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # noqa: BLE001 - these libraries raise plain exceptions of their own
            raise self._unusable(f"cannot be loaded: {_first_line(error)}") from None
        self._check_inputs(session, takes_text=takes_text)
        return session

    def _check_inputs(self, session: Any, *, takes_text: bool) -> None:
        inputs = {item.name: item.type for item in session.get_inputs()}
        if takes_text and list(inputs.values()) != ["tensor(string)"]:
            raise self._unusable(
                "does not take texts themselves",
                hint="give its tokenizer.json: KB_EMBEDDINGS_TOKENIZER_FILE",
            )
        unknown = sorted(inputs.keys() - {"input_ids", "attention_mask", "token_type_ids"})
        if not takes_text and unknown:
            raise self._unusable(
                f"wants inputs that a tokenizer does not give: {', '.join(unknown)}"
            )

    # Running

    @staticmethod
    def _output(session: Any) -> Any:
        outputs = session.get_outputs()
        return next((item for item in outputs if item.name == _SENTENCE), outputs[0])

    def _run(self, text: str) -> Any:
        """The vector of one text, not yet of unit length."""
        import numpy as np

        session = self._loaded()
        feed, mask = self._feed(session, text)
        try:
            found = np.asarray(session.run([self._output(session).name], feed)[0], dtype=np.float64)
        except Exception as error:  # noqa: BLE001 - the runtime raises plain exceptions of its own
            raise self._unusable(f"cannot be run: {_first_line(error)}") from None
        if found.ndim == 3:
            # A vector per token: their mean, without those that the mask leaves out.
            weights = (
                np.ones(found.shape[1]) if mask is None else np.asarray(mask, dtype=np.float64)
            )
            return weights @ found[0] / (weights.sum() or 1.0)
        if found.ndim != 2 or len(found) != 1:
            raise self._unusable(
                f"gives an output of shape {list(found.shape)}, which is not one vector per text or token"
            )
        return found[0]

    def _feed(self, session: Any, text: str) -> tuple[dict[str, Any], list[int] | None]:
        import numpy as np

        inputs = session.get_inputs()
        if self._tokenizer is None:
            shape = (1,) * (len(inputs[0].shape) or 1)
            return {
                inputs[0].name: np.array([text[:_MAX_CHARACTERS]], dtype=object).reshape(shape)
            }, None
        limit = self._tokenizer.truncation["max_length"] * _CHARACTERS_PER_TOKEN
        encoding = self._tokenizer.encode(text[:limit])
        given = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        kinds = {"tensor(int32)": np.int32}
        feed = {
            item.name: np.array([given[item.name]], dtype=kinds.get(item.type, np.int64))
            for item in inputs
        }
        return feed, encoding.attention_mask

    def _unusable(self, what: str, hint: str | None = None) -> EmbedderUnavailable:
        return EmbedderUnavailable(f"the model {self._file.name} {what}", hint=hint)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
