"""Signatures of the runs that a site publishes, and whether they are of those whom the reader trusts."""

from collections.abc import Callable, Iterator
from pathlib import Path

from lab.errors import EvidenceError
from lab.website.data import promoted
from lab.website.data.signature import SIGNATURE, known_signer, signer
from lab.website.verification.files import Mismatch


def check_signatures(root: Path, signers: Path | None, say: Callable[[str], None]) -> Iterator[Mismatch]:
    """Each signature that is not of its manifest; where `signers` are named, also each run that none of them signed."""
    for manifest in sorted((root / "runs").glob(f"*/{promoted.NAME}")):
        signature = manifest.with_name(SIGNATURE)
        place = signature.relative_to(root).as_posix()
        if not signature.is_file():
            if signers:
                yield Mismatch(place, f"is missing: the run is signed by nobody in {signers}")
            continue
        content = manifest.read_bytes()
        try:
            who = known_signer(content, signature, signers) if signers else f"the key {signer(content, signature)}"
        except EvidenceError as problem:
            yield Mismatch(place, str(problem))
        else:
            say(f"{manifest.parent.relative_to(root).as_posix()} is signed by {who}")
