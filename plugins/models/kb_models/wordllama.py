"""The default embedder: WordLlama's static token vectors, averaged.

Its weights come inside the package's wheel, so nothing is downloaded. They are read here, mapped from the file, because
importing the package costs more than all of this and its own loader looks for the tokenizer on the network.
"""

from __future__ import annotations

import importlib.util
import json
import math
import mmap
import struct
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# More says nothing new about a chunk, and keeps a pathological text from costing minutes.
_MAX_TOKENS = 4096
# Below this, adding numbers up costs less than importing numpy does.
_FEW_TOKENS = 256
_BATCH = 128


@lru_cache(maxsize=1)
def _read_tokenizer(path: Path) -> Tokenizer:
    """Read once per process, however many knowledge bases it opens: it takes a tenth of a second and never changes."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(_MAX_TOKENS)
    tokenizer.no_padding()
    return tokenizer


class WordLlama:
    model = "wordllama/l2_supercat_256"
    dimensions = 256
    languages = frozenset({"en"})

    @cached_property
    def _folder(self) -> Path:
        spec = importlib.util.find_spec("wordllama")
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError("the package wordllama, which carries the weights, is not installed")
        return Path(spec.submodule_search_locations[0])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return _read_tokenizer(self._folder / "tokenizers" / "l2_supercat_tokenizer_config.json")

    @cached_property
    def _table(self) -> tuple[mmap.mmap, int]:
        """The file, mapped, and where its one tensor of half floats begins: a row per token."""
        path = self._folder / "weights" / "l2_supercat_256.safetensors"
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # The safetensors format: a length, a JSON header, then the tensors.
        length = int.from_bytes(mapped[:8], "little")
        header = json.loads(mapped[8 : 8 + length])
        tensor = next(value for name, value in header.items() if name != "__metadata__")
        if tensor["dtype"] != "F16" or tensor["shape"][1] != self.dimensions:
            raise RuntimeError(f"unexpected weights: {tensor}")
        return mapped, 8 + length + tensor["data_offsets"][0]

    @cached_property
    def _weights(self) -> Any:
        import numpy as np

        mapped, begin = self._table
        return np.frombuffer(mapped, dtype=np.float16, offset=begin).reshape(-1, self.dimensions)

    def encode(self, texts: list[str]) -> list[bytes]:
        """A unit vector per text: the mean of its tokens' vectors; zeros for a text without tokens."""
        # In batches, because what the tokenizer answers takes a hundred times the memory of the text.
        parts = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
        return [vector for part in parts for vector in self._encode(part)]

    def tokens(self, texts: list[str]) -> list[list[int]]:
        return [
            encoding.ids
            for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ]

    def token_vectors(self, tokens: Any) -> Any:
        """A row for each token, as float32."""
        return self._weights[tokens].astype("float32")

    def _encode(self, texts: list[str]) -> list[bytes]:
        tokens = self.tokens(texts)
        few = sum(map(len, tokens)) <= _FEW_TOKENS
        return [self._sum_up(ids) for ids in tokens] if few else self._average(tokens)

    def _sum_up(self, tokens: list[int]) -> bytes:
        mapped, begin = self._table
        size = 2 * self.dimensions
        rows = [
            struct.unpack_from(f"<{self.dimensions}e", mapped, begin + size * token)
            for token in tokens
        ]
        total = [math.fsum(column) for column in zip(*rows, strict=True)] or [0.0] * self.dimensions
        norm = math.hypot(*total) or 1.0
        return struct.pack(f"<{self.dimensions}f", *(value / norm for value in total))

    def _average(self, tokens: list[list[int]]) -> list[bytes]:
        import numpy as np

        # Texts have many tokens in common: each is read and widened once.
        different, places = np.unique(
            np.fromiter(chain.from_iterable(tokens), np.int64), return_inverse=True
        )
        table = self.token_vectors(different)
        ends = np.cumsum([len(ids) for ids in tokens]).tolist()
        vectors = np.zeros((len(tokens), self.dimensions), dtype=np.float32)
        for row, (begin, end) in enumerate(pairwise([0, *ends])):
            np.add.reduce(table.take(places[begin:end], axis=0), axis=0, out=vectors[row])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(norms > 0, norms, 1.0)
        return [vector.tobytes() for vector in vectors]
