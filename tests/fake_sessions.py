"""The console's sessions and dead-letter queues in memory; the former pass the contract of the adapter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from hookkeeper.domain.session import PortalLink, Session
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import DeadLetters


@dataclass
class FakeSessions:
    links: dict[str, PortalLink] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)

    def put_link(self, link: PortalLink) -> None:
        self.links[link.sha256] = link

    def link(self, sha256: str) -> PortalLink | None:
        return self.links.get(sha256)

    def open_link(self, link: PortalLink, session: Session, *, now: datetime) -> bool:
        standing = self.links.get(link.sha256)
        if standing is None:
            return False
        if standing.used_by == session.sha256:
            return True
        if standing.flaw(now) is not None:
            return False
        self.links[link.sha256] = replace(standing, used_by=session.sha256)
        self.sessions[session.sha256] = session
        return True

    def put(self, session: Session) -> None:
        self.sessions[session.sha256] = session

    def get(self, sha256: str) -> Session | None:
        return self.sessions.get(sha256)

    def act_for(self, session: Session, scope: Scope) -> bool:
        standing = self.sessions.get(session.sha256)
        if standing is None:
            return False
        self.sessions[session.sha256] = replace(standing, scope=scope)
        return True

    def end(self, sha256: str) -> None:
        self.sessions.pop(sha256, None)


@dataclass
class FakeDeadLetterQueues:
    """`lying` counts what lies in each; `moved` what was put back."""

    lying: Counter[str] = field(
        default_factory=lambda: Counter({"Events": 0, "Deliveries": 0, "Backfill": 0, "Ingest": 0})
    )
    moved: Counter[str] = field(default_factory=Counter)

    def depths(self) -> Sequence[DeadLetters]:
        return [DeadLetters(name, count, name != "Ingest") for name, count in self.lying.items()]

    def redrive(self, name: str, *, most: int) -> int:
        if name not in self.lying or name == "Ingest":
            raise KeyError(name)
        taken = min(most, self.lying[name])
        self.lying[name] -= taken
        self.moved[name] += taken
        return taken
