"""The stack's alarms and widgets, as the tests ask for them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Watched:
    """A metric as CloudWatch finds it: dimensions with references as `<logical id>`."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]

    @property
    def service(self) -> str:
        """The function that writes it, of a metric of our own."""
        return dict(self.dimensions)["service"]


def alarms(template: Any) -> dict[str, dict[str, Any]]:
    """Properties of each alarm by the name that infra/monitoring.py gives it."""
    return {
        id_.removeprefix("Monitoring")[:-8]: properties
        for id_, properties in template.of("AWS::CloudWatch::Alarm").items()
    }


def watched_by(template: Any, alarm: dict[str, Any]) -> list[Watched]:
    """The metrics of an alarm: one, or those of its expression."""
    parts = [each["MetricStat"]["Metric"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
    return [
        Watched(
            part["Namespace"],
            part["MetricName"],
            tuple((d["Name"], template.literal(d["Value"])) for d in part.get("Dimensions", [])),
        )
        for part in parts or [alarm]
    ]


def drawn(template: Any) -> dict[str, list[Watched]]:
    """The metrics of each dashboard."""
    return {
        id_: list(_drawn(template.literal(properties["DashboardBody"])))
        for id_, properties in template.of("AWS::CloudWatch::Dashboard").items()
    }


def _drawn(body: str) -> Iterator[Watched]:
    for widget in json.loads(body)["widgets"]:
        for metric in widget["properties"].get("metrics", []):
            namespace, name, *rest = (part for part in metric if not isinstance(part, dict))
            yield Watched(namespace, name, tuple(zip(rest[::2], rest[1::2], strict=True)))
