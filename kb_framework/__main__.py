"""The entry point of `kb`."""

from __future__ import annotations

import gc
from typing import NoReturn


def main() -> NoReturn:
    # A command ends before its garbage matters, and collecting during imports is a tenth of its time.
    gc.disable()
    from kb_framework.edges.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
