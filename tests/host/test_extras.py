"""The command that installs an optional dependency."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb_framework.api.messages import install_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'kb-framework[onnx]'"),
        (
            {"url": "https://example.org/kb.whl", "archive_info": {}},
            "pip install 'kb-framework[onnx]'",
        ),
        ({"url": "file:///srv/kb", "dir_info": {}}, "pip install '/srv/kb[onnx]'"),
        (
            {"url": "file:///srv/my%20kb", "dir_info": {"editable": True}},
            "pip install -e '/srv/my kb[onnx]'",
        ),
    ],
)
def test_the_command_fits_how_the_package_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, command: str
) -> None:
    info = tmp_path / "kb_framework-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kb-framework\nVersion: 9\n", encoding="utf-8"
    )
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert install_command("onnx") == command
