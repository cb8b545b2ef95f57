"""The default embedder: WordLlama's static token vectors, averaged.

Its weights come inside the package's wheel, so nothing is downloaded. They are read here, mapped from the file, because
importing the package costs more than all of this and its own loader looks for the tokenizer on the network.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

_DTYPES = {"F16": np.float16, "F32": np.float32}
# More says nothing new about a chunk, and keeps a pathological text from costing minutes.
_MAX_TOKENS = 4096


class WordLlama:
    model = "wordllama/l2_supercat_256"
    dimensions = 256

    @cached_property
    def _folder(self) -> Path:
        spec = importlib.util.find_spec("wordllama")
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError("the package wordllama, which carries the weights, is not installed")
        return Path(spec.submodule_search_locations[0])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        tokenizer.enable_truncation(_MAX_TOKENS)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _weights(self) -> np.ndarray:
        path = self._folder / "weights" / "l2_supercat_256.safetensors"
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # The safetensors format: a length, a JSON header, then the tensors.
        length = int.from_bytes(mapped[:8], "little")
        header = json.loads(mapped[8 : 8 + length])
        tensor = next(value for name, value in header.items() if name != "__metadata__")
        begin, end = tensor["data_offsets"]
        dtype = np.dtype(_DTYPES[tensor["dtype"]])
        flat = np.frombuffer(mapped, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=8 + length + begin)
        return flat.reshape(tensor["shape"])

    def encode(self, texts: list[str]) -> np.ndarray:
        """A unit vector per text: the mean of its tokens' vectors; zeros for a text without tokens."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, encoding in enumerate(self._tokenizer.encode_batch(texts, add_special_tokens=False)):
            if encoding.ids:
                vectors[row] = self._weights[encoding.ids].astype(np.float32).mean(axis=0)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1.0)
