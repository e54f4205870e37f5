"""Secrets are small private files below one folder, read when used, never quoted."""

import base64
import os

import pytest

from sidecar.push.webhook_secrets import SecretUnusable, WebhookSecrets

KEY = bytes(range(32))
TEXT = "whsec_" + base64.b64encode(KEY).decode()


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)


def test_a_changed_file_counts_at_the_next_use(tmp_path):
    write(tmp_path / "k", TEXT + "\n")
    found = WebhookSecrets(tmp_path)
    assert found.signing_key("k") == found.signing_key("k") == KEY
    other = base64.b64encode(bytes(24)).decode()
    write(tmp_path / "new", "whsec_" + other)
    (tmp_path / "new").rename(tmp_path / "k")
    assert found.signing_key("k") == bytes(24)
    assert found.text("k") == "whsec_" + other


def test_what_others_may_read_is_refused(tmp_path):
    for mode in (0o640, 0o604, 0o660):
        write(tmp_path / "k", TEXT, mode)
        with pytest.raises(SecretUnusable, match="chmod 600"):
            WebhookSecrets(tmp_path).signing_key("k")


def test_links_folders_pipes_and_missing_files_are_refused(tmp_path):
    outside = tmp_path / "outside"
    write(outside, TEXT)
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe", 0o600)
    found = WebhookSecrets(folder)
    for name in ("link", "folder", "pipe", "missing"):
        with pytest.raises(SecretUnusable, match=name):
            found.text(name)


def test_a_bad_secret_is_never_quoted(tmp_path):
    write(tmp_path / "k", "whsec_notasecretatall!")
    write(tmp_path / "two", "one\ntwo")
    write(tmp_path / "big", "x" * 9000)
    write(tmp_path / "empty", "")
    found = WebhookSecrets(tmp_path)
    with pytest.raises(SecretUnusable) as caught:
        found.signing_key("k")
    assert "notasecret" not in str(caught.value)
    for name in ("two", "big", "empty"):
        with pytest.raises(SecretUnusable):
            found.text(name)


def test_without_a_folder_the_setting_is_named():
    with pytest.raises(SecretUnusable, match=r"push\.secrets"):
        WebhookSecrets(None).text("k")
