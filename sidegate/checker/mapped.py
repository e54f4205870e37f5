"""Files mapped into memory, for whoever walks over them once."""

import mmap
from pathlib import Path


def map_file(path: Path) -> memoryview:
    """A file's bytes without reading them; unmapped when the last view of them is gone."""
    if path.stat().st_size == 0:
        return memoryview(b"")
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
