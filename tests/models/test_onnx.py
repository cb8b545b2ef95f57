"""Embedders over ONNX files, with tiny models made here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kb_models.onnx_file import OnnxFile
from kb_models.onnx_model import OnnxModel
from kb_models.settings import EmbeddingsSettings

from kb_framework.client import connect
from kb_framework.errors import EmbedderUnavailable

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
onnx = pytest.importorskip(
    "onnx", reason="onnx, which makes the models of these tests, is not installed"
)
helper: Any = onnx.helper
INT64, FLOAT, STRING = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, onnx.TensorProto.STRING

WORDS = ["[UNK]", "[PAD]", "cat", "dog", "sea", "ship"]
# A row per word; neither zero nor of unit length.
TABLE = np.array(
    [[1, 1, 1], [50, 50, 50], [2, 0, 0], [2, 1, 0], [0, 0, 3], [0, 1, 3]], dtype=np.float32
)


def save(
    path: Path,
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    constants: list[Any] | None = None,
) -> Path:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants or [])
    # An older version of the format, which every runtime of these years reads.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def value(name: str, kind: int, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer.json of a few words."""
    import tokenizers
    from tokenizers import models, pre_tokenizers

    made = tokenizers.Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    made.enable_padding(pad_id=1, pad_token="[PAD]", length=8)
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path


@pytest.fixture
def token_model(tmp_path: Path) -> Callable[..., Path]:
    """A model that gives a vector per token: the word's row of the table."""

    def make(
        name: str = "tokens.onnx",
        width: Any = 3,
        table: np.ndarray = TABLE,
        extra: tuple[str, ...] = (),
    ) -> Path:
        inputs = [
            value(item, INT64, ["batch", "length"])
            for item in ("input_ids", "attention_mask", *extra)
        ]
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"]),
            helper.make_node("Identity", ["attention_mask"], ["seen"]),
        ]
        outputs = [
            value("last_hidden_state", FLOAT, ["batch", "length", width]),
            value("seen", INT64, ["batch", "length"]),
        ]
        constants = [onnx.numpy_helper.from_array(table, "table")]
        return save(tmp_path / name, nodes, inputs, outputs, constants)

    return make


@pytest.fixture
def text_model(tmp_path: Path) -> Path:
    """A model that takes texts themselves: [1, is it "cat", is it "sea"]."""
    nodes = [
        helper.make_node("Unsqueeze", ["inputs", "one"], ["column"]),
        helper.make_node(
            "LabelEncoder",
            ["column"],
            ["cat"],
            domain="ai.onnx.ml",
            keys_strings=["cat"],
            values_floats=[1.0],
        ),
        helper.make_node(
            "LabelEncoder",
            ["column"],
            ["sea"],
            domain="ai.onnx.ml",
            keys_strings=["sea"],
            values_floats=[1.0],
        ),
        helper.make_node("Mul", ["cat", "nothing"], ["zeros"]),
        helper.make_node("Add", ["zeros", "unit"], ["ones"]),
        helper.make_node("Concat", ["ones", "cat", "sea"], ["outputs"], axis=1),
    ]
    for node in nodes[1:3]:
        node.attribute.append(helper.make_attribute("default_float", 0.0))
    constants = [
        onnx.numpy_helper.from_array(np.array([1], dtype=np.int64), "one"),
        onnx.numpy_helper.from_array(np.array(0.0, dtype=np.float32), "nothing"),
        onnx.numpy_helper.from_array(np.array(1.0, dtype=np.float32), "unit"),
    ]
    graph = helper.make_graph(
        nodes,
        "texts",
        [value("inputs", STRING, ["batch"])],
        [value("outputs", FLOAT, ["batch", 3])],
        constants,
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    path = tmp_path / "texts.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()
    )
    return path


def numbers(vectors: list[bytes]) -> np.ndarray:
    return np.array([np.frombuffer(vector, dtype="<f4") for vector in vectors])


def unit(*vector: float) -> np.ndarray:
    return np.array(vector) / np.linalg.norm(vector)


# Models of tokens


def test_a_texts_vector_is_the_mean_of_its_tokens_without_padding_at_unit_length(
    token_model: Any, tokenizer: Path
) -> None:
    found = numbers(OnnxModel(token_model(), tokenizer).encode(["cat", "cat sea", "dog ship ship"]))

    assert found == pytest.approx(np.array([unit(2, 0, 0), unit(2, 0, 3), unit(2, 3, 6)]), abs=1e-6)


def test_texts_without_content_are_all_zeros(token_model: Any, tokenizer: Path) -> None:
    assert OnnxModel(token_model(), tokenizer).encode(["", " \n\t"]) == [bytes(12)] * 2


def test_a_text_has_the_same_vector_alone_and_among_others(
    token_model: Any, tokenizer: Path
) -> None:
    model = OnnxModel(token_model(), tokenizer)
    texts = [
        " ".join(WORDS[2 + (number * place) % 4] for place in range(number % 9 + 1))
        for number in range(100)
    ]

    assert model.encode(texts) == [model.encode([text])[0] for text in texts]


def test_a_length_that_the_model_does_not_declare_is_found_out(
    token_model: Any, tokenizer: Path
) -> None:
    assert OnnxModel(token_model(width="width"), tokenizer).dimensions == 3


def test_a_very_long_text_is_cut(token_model: Any, tokenizer: Path) -> None:
    (found,) = numbers(
        OnnxModel(token_model(), tokenizer).encode(["cat " * 512 + "sea " * 100_000])
    )

    assert found == pytest.approx(unit(2, 0, 0), abs=1e-6)


def test_an_output_that_is_a_texts_vector_already_is_preferred(
    tmp_path: Path, tokenizer: Path
) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["token_embeddings"]),
        helper.make_node(
            "ReduceMax", ["token_embeddings"], ["sentence_embedding"], axes=[1], keepdims=0
        ),
    ]
    outputs = [
        value("token_embeddings", FLOAT, ["b", "n", 3]),
        value("sentence_embedding", FLOAT, ["b", 3]),
    ]
    inputs = [value("input_ids", INT64, ["b", "n"])]
    path = save(
        tmp_path / "both.onnx",
        nodes,
        inputs,
        outputs,
        [onnx.numpy_helper.from_array(TABLE, "table")],
    )

    found = numbers(OnnxModel(path, tokenizer).encode(["cat sea"]))

    assert found == pytest.approx(np.array([unit(2, 0, 3)]), abs=1e-6)


def test_a_model_that_wants_what_no_tokenizer_gives_says_so(
    token_model: Any, tokenizer: Path
) -> None:
    with pytest.raises(EmbedderUnavailable, match="position_ids"):
        OnnxModel(token_model(extra=("position_ids",)), tokenizer).encode(["cat"])


def test_a_vector_that_is_not_finite_is_refused(token_model: Any, tokenizer: Path) -> None:
    with pytest.raises(
        EmbedderUnavailable, match=r"tokens\.onnx gave a vector that is not made of finite numbers"
    ):
        OnnxModel(token_model(table=TABLE * np.nan), tokenizer).encode(["cat"])


def test_a_token_that_the_model_does_not_know_is_an_error_and_no_crash(
    token_model: Any, tokenizer: Path
) -> None:
    with pytest.raises(EmbedderUnavailable, match="cannot be run"):
        OnnxModel(token_model(table=TABLE[:3]), tokenizer).encode(["ship"])


@pytest.mark.parametrize("broken", ["model", "tokenizer"])
def test_a_file_that_is_something_else_is_an_error_that_names_the_model(
    token_model: Any, tokenizer: Path, tmp_path: Path, broken: str
) -> None:
    files = {"model": token_model(), "tokenizer": tokenizer}
    files[broken].write_bytes(b"\x00 not what it seems")

    with pytest.raises(EmbedderUnavailable, match=r"tokens\.onnx cannot be loaded"):
        OnnxModel(files["model"], files["tokenizer"]).encode(["cat"])


# Models of texts


def test_a_model_can_take_texts_itself(text_model: Path) -> None:
    pytest.importorskip("onnxruntime_extensions", reason="the extra 'onnx' is not installed")
    model = OnnxModel(text_model)

    found = numbers(model.encode(["cat", "sea", "other"]))

    assert found == pytest.approx(np.array([unit(1, 1, 0), unit(1, 0, 1), unit(1, 0, 0)]), abs=1e-6)
    assert model.dimensions == 3


def test_a_model_of_tokens_without_a_tokenizer_says_what_to_give(token_model: Any) -> None:
    pytest.importorskip("onnxruntime_extensions", reason="the extra 'onnx' is not installed")
    with pytest.raises(EmbedderUnavailable) as caught:
        OnnxModel(token_model()).encode(["cat"])

    assert "KB_EMBEDDINGS_TOKENIZER_FILE" in str(caught.value.hint)


# The embedder


def embedder(file: Path | None, tokenizer: Path | None = None) -> OnnxFile:
    return OnnxFile(
        EmbeddingsSettings.model_validate({"onnx_file": file, "tokenizer_file": tokenizer})
    )


def test_the_same_files_are_the_same_model_wherever_they_are(
    token_model: Any, tokenizer: Path, tmp_path: Path
) -> None:
    before = embedder(token_model(), tokenizer).model
    (tmp_path / "elsewhere").mkdir()
    moved = token_model().rename(tmp_path / "elsewhere" / "tokens.onnx")

    assert embedder(moved, tokenizer).model == before


def test_other_weights_or_another_tokenizer_are_another_model(
    token_model: Any, tokenizer: Path
) -> None:
    models = [embedder(token_model(), tokenizer).model, embedder(token_model()).model]
    models.append(embedder(token_model(table=TABLE + 1), tokenizer).model)
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    models.append(embedder(token_model(), tokenizer).model)

    assert len(set(models)) == 4


def test_what_is_missing_is_a_problem_that_names_the_setting(
    tmp_path: Path, token_model: Any, tokenizer: Path
) -> None:
    assert "KB_EMBEDDINGS_ONNX_FILE" in str(embedder(None).problem)
    assert "KB_EMBEDDINGS_ONNX_FILE" in str(embedder(tmp_path / "none.onnx").problem)
    assert "KB_EMBEDDINGS_TOKENIZER_FILE" in str(
        embedder(token_model(), tmp_path / "none.json").problem
    )
    assert embedder(token_model(), tokenizer).problem is None


def test_documents_are_found_by_meaning(
    kb_home: Path, token_model: Any, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "onnx")
    monkeypatch.setenv("KB_EMBEDDINGS_ONNX_FILE", str(token_model()))
    monkeypatch.setenv("KB_EMBEDDINGS_TOKENIZER_FILE", os.path.relpath(tokenizer))
    with connect() as engine:
        for text in ("cat", "ship"):
            engine.add_note(text)

        assert [hit["title"] for hit in engine.search("dog", mode="vector")["hits"]] == [
            "cat",
            "ship",
        ]
        assert [hit["title"] for hit in engine.search("sea", mode="vector")["hits"]] == [
            "ship",
            "cat",
        ]
        assert engine.get("/doctor")["status"] == "ok"


EMBED = """
import sys
from pathlib import Path
from kb_models.onnx_model import OnnxModel

OnnxModel(Path(sys.argv[1]), Path(sys.argv[2])).encode(["cat", "sea"])
"""


def test_the_runtime_leaves_nothing_in_the_home_folder(
    tmp_path: Path, token_model: Any, tokenizer: Path
) -> None:
    home = tmp_path / "person"
    home.mkdir()
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("XDG_", "ORT_", "COV_"))
    }

    # A process of its own: in this one another test may have loaded the runtime before.
    subprocess.run(
        [sys.executable, "-c", EMBED, str(token_model()), str(tokenizer)],
        env={**environment, "HOME": str(home)},
        check=True,
    )

    assert list(home.rglob("*")) == []
