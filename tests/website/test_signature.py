"""Signed runs: by an SSH key, over the manifest; a signature of anything else, or of a stranger, is named."""

import subprocess

import pytest
from factory import plan_of, records_of, small_experiment, write_run

from lab.errors import EvidenceError
from lab.website.data import promoted
from lab.website.data.publication_log import NAME as LOG
from lab.website.data.signature import SIGNATURE, known_signer, sign, signer
from lab.website.verification.signatures import check_signatures

CONTENT = b'{"digest": "abc"}\n'


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """An SSH key without a passphrase."""
    path = tmp_path_factory.mktemp("keys") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", str(path)], check=True)
    return path


@pytest.fixture
def signed(key, tmp_path):
    path = tmp_path / SIGNATURE
    path.write_bytes(sign(CONTENT, key))
    return path


@pytest.fixture
def signers(key, tmp_path):
    path = tmp_path / "allowed_signers"
    path.write_text(f"ada@example.org {key.with_suffix('.pub').read_text()}")
    return path


def test_a_signature_names_its_key(key, signed):
    listing = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{key}.pub"], capture_output=True, text=True, check=True
    ).stdout
    assert signer(CONTENT, signed) == listing.split()[1]


def test_a_signature_of_other_content_is_none(signed, signers):
    with pytest.raises(EvidenceError, match="is no signature of this manifest"):
        signer(CONTENT + b" ", signed)
    with pytest.raises(EvidenceError, match=r"is no signature of this manifest by ada@example\.org"):
        known_signer(CONTENT + b" ", signed, signers)


def test_what_is_no_signature_is_refused(tmp_path):
    (tmp_path / SIGNATURE).write_bytes(b"trust me")
    with pytest.raises(EvidenceError, match="is no signature of this manifest"):
        signer(CONTENT, tmp_path / SIGNATURE)


def test_who_signed_is_looked_up_among_those_who_may(signed, signers, tmp_path):
    assert known_signer(CONTENT, signed, signers) == "ada@example.org"
    (tmp_path / "nobody").write_text("")
    with pytest.raises(EvidenceError, match="was signed by nobody in"):
        known_signer(CONTENT, signed, tmp_path / "nobody")


def test_a_key_that_is_none_is_refused(tmp_path):
    with pytest.raises(EvidenceError, match=r"nothing: cannot be signed with .* name an SSH key"):
        sign(CONTENT, tmp_path / "nothing")


def test_a_site_is_held_against_its_signatures(key, signers, tmp_path):
    folder = tmp_path / "site" / "runs" / "0123456789ab"
    folder.mkdir(parents=True)
    (folder / promoted.NAME).write_bytes(CONTENT)
    messages = []
    root = tmp_path / "site"
    assert list(check_signatures(root, None, messages.append)) == []
    (missing,) = check_signatures(root, signers, messages.append)
    assert str(missing).startswith(f"runs/0123456789ab/{SIGNATURE}: is missing: the run is signed by nobody in")
    (folder / SIGNATURE).write_bytes(sign(CONTENT, key))
    assert list(check_signatures(root, signers, messages.append)) == []
    assert messages == ["runs/0123456789ab is signed by ada@example.org"]
    (folder / promoted.NAME).write_bytes(b"{}")
    (altered,) = check_signatures(root, None, messages.append)
    assert "is no signature of this manifest" in str(altered)


def test_a_promotion_is_signed_and_withdrawn_with_its_signature(key, tmp_path, monkeypatch):
    monkeypatch.setattr(promoted, "commit_of", lambda digest, root: "c" * 40)
    plan = plan_of("night-3", experiments=[small_experiment()], include=[])
    directory = write_run(tmp_path / "night-3", plan, records_of(plan, {"plain": 40e-6, "fast": 20e-6}))
    evidence = tmp_path / "evidence"
    with pytest.raises(EvidenceError, match="cannot be signed with"):
        promoted.promote(directory, evidence, tmp_path, tmp_path / "nothing")
    assert not list(evidence.glob("*/*"))
    done = promoted.promote(directory, evidence, tmp_path, key)
    assert signer((done.directory / promoted.NAME).read_bytes(), done.directory / SIGNATURE)
    assert (evidence / LOG).read_text().count("\n") == 1
    done.withdraw()
    assert not done.directory.exists()
    assert (evidence / LOG).read_text() == ""
