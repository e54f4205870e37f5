"""Trust domains' files: taken up while running, and never for the worse."""

import os
from pathlib import Path

import pytest

from gatekeeper.identity.trust import TrustDomain
from gatekeeper.identity.trust_files import TrustFiles, TrustFilesError


@pytest.fixture
def domain(tmp_path: Path, root) -> TrustDomain:
    (tmp_path / "ca.pem").write_bytes(root.pem)
    return TrustDomain("example", tmp_path / "ca.pem")


@pytest.fixture
def crl_domain(domain: TrustDomain, tmp_path: Path) -> TrustDomain:
    return TrustDomain("example", domain.bundle, "required", tmp_path / "crl.pem")


def replace_file(path: Path, data: bytes) -> None:
    """As deployment tools do it: a new file takes the old one's name."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def test_bundles_are_read_once_and_again_when_they_change(domain, root, new_root) -> None:
    files = TrustFiles([domain])
    first = files.load()
    assert first.generation == 1
    assert first.bundles["example"].certificates == (root.certificate,)
    assert files.reload_changed() is first
    other = new_root("next")
    replace_file(domain.bundle, root.pem + other.pem)
    second = files.reload_changed()
    assert second.generation == 2
    assert len(second.bundles["example"].certificates) == 2
    assert len(first.bundles["example"].certificates) == 1


def test_a_rewrite_in_place_is_noticed_even_with_the_same_size(domain, root) -> None:
    files = TrustFiles([domain])
    files.load()
    status = domain.bundle.stat()
    domain.bundle.write_bytes(root.pem)
    os.utime(domain.bundle, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert files.reload_changed().generation == 2


@pytest.mark.parametrize("data", [b"", b"garbage", None])
def test_a_broken_bundle_leaves_the_last_good_one_in_force(domain, root, data) -> None:
    files = TrustFiles([domain])
    files.load()
    if data is None:
        domain.bundle.unlink()
    else:
        replace_file(domain.bundle, data)
    state = files.reload_changed()
    assert state.generation == 1
    assert state.bundles["example"].certificates == (root.certificate,)
    assert list(state.problems) == [str(domain.bundle)]
    replace_file(domain.bundle, root.pem)
    assert files.reload_changed().problems == {}


def test_the_service_does_not_begin_without_a_bundle(tmp_path) -> None:
    files = TrustFiles([TrustDomain("example", tmp_path / "none.pem")])
    with pytest.raises(TrustFilesError, match=r"none\.pem"):
        files.load()


def test_a_monstrous_bundle_is_refused(tmp_path) -> None:
    (tmp_path / "ca.pem").write_bytes(bytes(2 * 1024 * 1024))
    with pytest.raises(TrustFilesError, match="more than"):
        TrustFiles([TrustDomain("example", tmp_path / "ca.pem")]).load()


def test_wrong_settings_are_refused_at_once(domain, tmp_path) -> None:
    with pytest.raises(ValueError, match="crl_file"):
        TrustFiles([TrustDomain("example", domain.bundle, "required")])
    with pytest.raises(ValueError, match="same name"):
        TrustFiles([domain, domain])


def test_lists_are_read_only_where_they_are_required(domain, crl_domain, root) -> None:
    assert "example" not in TrustFiles([domain]).load().crls
    assert crl_domain.crl_file is not None
    crl_domain.crl_file.write_bytes(root.crl())
    assert len(TrustFiles([crl_domain]).load().crls["example"].crls) == 1


def test_a_list_may_come_later(crl_domain, root) -> None:
    files = TrustFiles([crl_domain])
    state = files.load()
    assert state.crls["example"].crls == ()
    assert list(state.problems) == [str(crl_domain.crl_file)]
    crl_domain.crl_file.write_bytes(root.crl())
    state = files.reload_changed()
    assert len(state.crls["example"].crls) == 1
    assert state.problems == {}
    assert state.generation == 1, "certificates stay verified; only their revocation changed"


@pytest.mark.parametrize("broken", ["garbage", "gone", "forged", "older"])
def test_a_broken_list_leaves_the_last_good_one_in_force(
    crl_domain, root, new_root, broken
) -> None:
    path = crl_domain.crl_file
    path.write_bytes(root.crl(4711))
    files = TrustFiles([crl_domain])
    files.load()
    if broken == "gone":
        path.unlink()
    else:
        data = {
            "garbage": b"garbage",
            "forged": root.crl(key=new_root().key),
            "older": root.crl(this_update_s=-7200),
        }[broken]
        replace_file(path, data)
    state = files.reload_changed()
    assert 4711 in state.crls["example"].crls[0].serials
    assert list(state.problems) == [str(path)]


def test_files_of_one_domain_do_not_disturb_another(tmp_path, domain, new_root) -> None:
    other_root = new_root("other")
    (tmp_path / "other.pem").write_bytes(other_root.pem)
    files = TrustFiles([domain, TrustDomain("other", tmp_path / "other.pem")])
    files.load()
    replace_file(tmp_path / "other.pem", b"garbage")
    state = files.reload_changed()
    assert set(state.bundles) == {"example", "other"}
