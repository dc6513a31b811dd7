"""The status page as one string, and the policy that lets it load nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

PAGE = files("sparkd.web").joinpath("index.html").read_text(encoding="utf-8")


def _hashes(tag: str) -> str:
    """What the page itself carries between these tags, as content security policy names it."""
    parts = re.findall(f"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" for part in parts)


PAGE_HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hashes('style')}",
            f"script-src {_hashes('script')}",
            "img-src data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
}
