"""An SSH signature over the manifest of a published run: who says that these are the files that were measured.

The manifest holds the SHA-256 of plan and journal and the commit, so that one signature covers them all. OpenSSH's
`ssh-keygen` signs and checks; the key may lie in an agent.
"""

import re
import subprocess
from pathlib import Path

from lab.errors import EvidenceError, MissingPackage

SIGNATURE = "evidence.json.sig"
NAMESPACE = "kernel-evidence-lab"  # a signature made for something else is none here
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/=]+")
SECONDS = 60.0


def sign(content: bytes, key: Path) -> bytes:
    """The signature of a manifest. EvidenceError where the key cannot be used."""
    done = _ssh_keygen(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE], content, None)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise EvidenceError(f"{key}: cannot be signed with ({_said(done)}); name an SSH key, such as ~/.ssh/id_ed25519")
    return done.stdout


def signer(content: bytes, signature: Path) -> str:
    """The fingerprint of the key that signed a manifest. EvidenceError where the signature is not of it."""
    done = _ssh_keygen(["-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)], content, SECONDS)
    fingerprint = FINGERPRINT.search(done.stdout.decode(errors="replace"))
    if done.returncode or not fingerprint:
        raise EvidenceError(f"is no signature of this manifest ({_said(done)})")
    return fingerprint[0]


def known_signer(content: bytes, signature: Path, signers: Path) -> str:
    """The name of who signed, in a file of allowed signers (see ssh-keygen(1)). EvidenceError where none there did."""
    principals = _ssh_keygen(["-Y", "find-principals", "-s", str(signature), "-f", str(signers)], b"", SECONDS)
    names = principals.stdout.decode(errors="replace").split()
    if principals.returncode or not names:
        raise EvidenceError(f"was signed by nobody in {signers} ({_said(principals)})")
    done = _ssh_keygen(
        ["-Y", "verify", "-n", NAMESPACE, "-s", str(signature), "-f", str(signers), "-I", names[0]], content, SECONDS
    )
    if done.returncode:
        raise EvidenceError(f"is no signature of this manifest by {names[0]} ({_said(done)})")
    return names[0]


def _ssh_keygen(arguments: list[str], content: bytes, seconds: float | None) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments], input=content, capture_output=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise MissingPackage("ssh-keygen is not installed here; it is a part of OpenSSH") from None
    except subprocess.TimeoutExpired:
        raise EvidenceError("ssh-keygen did not answer") from None


def _said(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[0][:200] if lines else f"ssh-keygen ended with {done.returncode}"
