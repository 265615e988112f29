"""Style, script and icon, served by the function itself, each under a path that changes with its content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper.domain.errors import NotFoundError

STATIC = Path(__file__).parent / "static"
FOREVER = "public, max-age=31536000, immutable"

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its text, its kind, and the digest in its path."""

    name: str
    text: str
    kind: str
    digest: str

    @property
    def path(self) -> str:
        return f"/static/{self.digest}/{self.name}"


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    kind = f"{_KINDS[path.suffix]}; charset=utf-8"
    return Asset(path.name, content.decode(), kind, hashlib.sha256(content).hexdigest()[:16])


ASSETS = {
    asset.name: asset
    for asset in map(_asset, sorted(path for path in STATIC.rglob("*") if path.suffix in _KINDS))
}

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@router.get("/console/static/<digest>/<name>")
def read(digest: str, name: str) -> Response[str]:
    """An old page may ask by an old digest: it is served what is there now, and told to ask again."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFoundError("file", name)
    caching = FOREVER if digest == asset.digest else "no-cache"
    return Response(200, content_type=asset.kind, body=asset.text, headers={"Cache-Control": caching})
