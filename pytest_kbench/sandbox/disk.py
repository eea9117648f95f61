"""How much a folder holds on disk."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

DEEPEST: Final = 3500  # bytes of a path; the kernel takes 4095, and a name has 255
SMALLEST: Final = 16 << 10  # bytes that any file counts for: empty ones must have an end too
UNKNOWN: Final = 1 << 62  # bytes: of a folder that cannot be looked through


def folder_size(place: Path) -> int:
    """Bytes on disk below a folder; without bound where it is deeper than a path can say, and hides what it holds."""
    total, folders = 0, [str(place)]
    while folders:  # no recursion: a candidate may have made it as deep as it likes
        folder = folders.pop()
        if len(os.fsencode(folder)) > DEEPEST:
            return UNKNOWN
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(entry.stat(follow_symlinks=False).st_blocks * 512, SMALLEST)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
