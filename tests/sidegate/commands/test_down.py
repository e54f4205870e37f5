from collections.abc import Callable
from typing import Any


def test_the_running_mesh_is_stopped(start_mesh: Callable[..., Any], command: Any) -> None:
    mesh = start_mesh()
    mesh.wait_for("ready")
    result = command("down", "--state", str(mesh.state))
    assert (result.returncode, result.stdout) == (0, "Stopped.\n")
    assert mesh.wait() == 0


def test_nothing_running_is_no_failure(command: Any) -> None:
    result = command("down")
    assert (result.returncode, result.stdout) == (0, "Nothing runs in .sidegate.\n")
