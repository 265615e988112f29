"""Where a checkout keeps what belongs to its embedded AWS: one folder, so that two run side by side."""

from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one embedded AWS. Everything in it can be deleted while nothing runs."""

    folder: Path = CHECKOUT / ".local"

    @property
    def port(self) -> Path:
        """The port chosen once for this folder, so that URLs stay the same from day to day."""
        return self.folder / "port"

    @property
    def server(self) -> Path:
        """Which process is the server: see process.py."""
        return self.folder / "server.json"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def cdk_log(self) -> Path:
        return self.folder / "cdk.log"

    @property
    def ca_certificate(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def stack(self) -> Path:
        """What runs and how to reach it: see stack.py."""
        return self.folder / "stack.json"

    @property
    def scratch(self) -> Path:
        """Temporary files and the home folder of every program that `up` starts."""
        return self.folder / "tmp"

    def prepare(self) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
