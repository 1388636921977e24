"""The digest of compiled code."""

import hashlib
import re

# What PTX holds for debuggers: where the source lay, and labels for it. The code is the rest.
DEBUG_SECTIONS = re.compile(r"^\s*\.section\b[^{]*\{[^}]*\}", re.MULTILINE)
DEBUG_LINES = re.compile(r"^\s*(?:\.loc\b.*|\.file\b.*|\$L__(?:tmp|func_begin|func_end)\d+:)?$\n?", re.MULTILINE)
COMMENTS = re.compile(r"\s*//.*$", re.MULTILINE)


def code_digest(ptx: str) -> str:
    """SHA-256 of PTX code: the same from another path, or after lines were added above the kernel."""
    code = DEBUG_LINES.sub("", COMMENTS.sub("", DEBUG_SECTIONS.sub("", ptx)))
    return hashlib.sha256(code.encode()).hexdigest()
