from pathlib import Path

from sidegate.checker.mapped import map_file


def test_a_file_is_read_in_place_and_an_empty_one_is_no_obstacle(tmp_path: Path) -> None:
    for content in (b"", b"abc"):
        file = tmp_path / "file"
        file.write_bytes(content)
        assert bytes(map_file(file)) == content
