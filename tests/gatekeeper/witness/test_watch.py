"""Whether a gatekeeper is a witness, and what it tells of that."""

from typing import Any


async def test_without_the_cores_key_it_is_no_witness_and_says_so(mesh: Any) -> None:
    watch = mesh.gatekeeper.watch
    assert watch.witness is None
    readiness = watch.readiness()
    assert readiness.ready
    assert readiness.detail["state"] == "off"
    watch.require_sound()
    assert "sidegate_gatekeeper_witness_alarm{" not in await metrics(mesh)


async def test_the_numbers_name_the_alarm_that_stands(
    new_mesh: Any, tree: Any, wait_until: Any
) -> None:
    tree.grow(3)
    mesh = await new_mesh(tree=tree)
    await wait_until(lambda: tree.cosigned)
    text = await metrics(mesh)
    assert 'sidegate_gatekeeper_witness_alarm{alarm="shrunk"} 0.0' in text
    assert "sidegate_gatekeeper_witness_size 3.0" in text
    assert "sidegate_gatekeeper_witness_cosigned_total 1.0" in text
    tree.leaves.pop()
    await wait_until(lambda: mesh.gatekeeper.watch.witness.alarm)
    text = await metrics(mesh)
    assert 'sidegate_gatekeeper_witness_alarm{alarm="shrunk"} 1.0' in text
    assert "sidegate_gatekeeper_witness_alarms_total 1.0" in text


async def metrics(mesh: Any) -> str:
    from prometheus_client import generate_latest

    return generate_latest(mesh.gatekeeper.registry).decode()
