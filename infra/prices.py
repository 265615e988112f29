"""What AWS asks, in one place: list prices of us-east-1 in US dollars, before any discount.

Read by `python -m infra.costs` (an idle month) and by the bench that prices a million deliveries. Each row
is named for what is counted; `free` is what every account has each month without end.
"""

from dataclasses import dataclass
from datetime import date

REGION = "us-east-1"
AS_OF = date(2026, 6, 30)
"""From published copies of AWS's price pages up to this day; `source` is the page to check a row against."""

MONTH_HOURS = 730
MONTH_MINUTES = 30 * 24 * 60


@dataclass(frozen=True, slots=True)
class Price:
    """`usd` for each `per` of a unit; `free` units a month cost nothing."""

    unit: str
    usd: float
    per: int = 1
    free: int = 0
    source: str = ""

    def of(self, count: float) -> float:
        """Dollars for so many units, none of them free."""
        return count * self.usd / self.per

    def after_free(self, count: float) -> float:
        """Dollars a month for so many units, where nothing else in the account uses the free ones."""
        return self.of(max(0.0, count - self.free))


_AWS = "https://aws.amazon.com"
_MILLION = 1_000_000

LAMBDA_REQUEST = Price("invocation", 0.20, _MILLION, _MILLION, f"{_AWS}/lambda/pricing/")
LAMBDA_GB_SECOND = Price("GB-second, arm64", 13.3334, _MILLION, 400_000, f"{_AWS}/lambda/pricing/")
"""The first 7.5 billion of a month; later ones are cheaper."""

SQS_REQUEST = Price("request of up to 64 KB", 0.40, _MILLION, _MILLION, f"{_AWS}/sqs/pricing/")
SQS_FAIR_REQUEST = Price("request with a message group, on top", 0.10, _MILLION, 0, f"{_AWS}/sqs/pricing/")
"""The surcharge of fair queues (since 2025-07)."""

DYNAMODB_WRITE = Price(
    "write unit of 1 KB, on demand", 0.625, _MILLION, 0, f"{_AWS}/dynamodb/pricing/on-demand/"
)
"""Since 2024-11, half of what it was; one in a transaction counts two."""
DYNAMODB_READ = Price(
    "read unit of 4 KB, on demand", 0.125, _MILLION, 0, f"{_AWS}/dynamodb/pricing/on-demand/"
)
"""Strongly consistent; an eventually consistent one counts a half."""
DYNAMODB_STORAGE = Price("GB-month stored", 0.25, 1, 25, f"{_AWS}/dynamodb/pricing/on-demand/")
DYNAMODB_RECOVERY = Price("GB-month of point-in-time recovery", 0.20, 1, 0, f"{_AWS}/dynamodb/pricing/")

S3_PUT = Price("PUT", 0.005, 1_000, 0, f"{_AWS}/s3/pricing/")
S3_GET = Price("GET", 0.0004, 1_000, 0, f"{_AWS}/s3/pricing/")
S3_STORAGE = Price("GB-month stored, Standard", 0.023, 1, 0, f"{_AWS}/s3/pricing/")

API_REQUEST = Price("REST API call", 3.50, _MILLION, 0, f"{_AWS}/api-gateway/pricing/")
STATE_TRANSITION = Price("state transition, Standard", 0.025, 1_000, 4_000, f"{_AWS}/step-functions/pricing/")
EVENT = Price("event of up to 64 KB on an own bus", 1.00, _MILLION, 0, f"{_AWS}/eventbridge/pricing/")
"""Scheduled rules, and what AWS itself puts on the default bus, cost nothing."""

LOG_GB = Price("GB of logs taken in", 0.50, 1, 5, f"{_AWS}/cloudwatch/pricing/")
LOG_STORAGE = Price("GB-month of logs kept, compressed", 0.03, 1, 0, f"{_AWS}/cloudwatch/pricing/")
METRIC = Price("own metric a month", 0.30, 1, 10, f"{_AWS}/cloudwatch/pricing/")
"""Counted by the hours in which it is written: a metric that is silent costs nothing."""
ALARM = Price("metric in an alarm a month", 0.10, 1, 10, f"{_AWS}/cloudwatch/pricing/")
DASHBOARD = Price("dashboard a month", 3.00, 1, 3, f"{_AWS}/cloudwatch/pricing/")
"""The free ones show at most `FREE_DASHBOARD_METRICS` metrics each."""
FREE_DASHBOARD_METRICS = 50

KMS_KEY = Price("key a month", 1.00, 1, 0, f"{_AWS}/kms/pricing/")
"""Its first and second yearly rotation add as much again, each."""
KMS_REQUEST = Price("request", 0.03, 10_000, 20_000, f"{_AWS}/kms/pricing/")

MAIL = Price("mail", 0.10, 1_000, 0, f"{_AWS}/ses/pricing/")
CONFIG_REQUEST = Price("AppConfig poll", 0.20, _MILLION, 0, f"{_AWS}/systems-manager/pricing/#AWS_AppConfig")
CONFIG_RECEIVED = Price(
    "AppConfig document received", 0.0008, 1, 0, f"{_AWS}/systems-manager/pricing/#AWS_AppConfig"
)
TOPIC_MAIL = Price("mail of an SNS topic", 2.00, 100_000, 1_000, f"{_AWS}/sns/pricing/")

EGRESS_GB = Price("GB out to the internet", 0.09, 1, 100, f"{_AWS}/ec2/pricing/on-demand/")
NAT_HOUR = Price("hour of a NAT gateway", 0.045, 1, 0, f"{_AWS}/vpc/pricing/")
NAT_GB = Price("GB through a NAT gateway", 0.045, 1, 0, f"{_AWS}/vpc/pricing/")
PUBLIC_IPV4_HOUR = Price("hour of a public IPv4 address", 0.005, 1, 0, f"{_AWS}/vpc/pricing/")
ENDPOINT_HOUR = Price("hour of an interface endpoint in one zone", 0.01, 1, 0, f"{_AWS}/privatelink/pricing/")
ENDPOINT_GB = Price("GB through an interface endpoint", 0.01, 1, 0, f"{_AWS}/privatelink/pricing/")

WEB_ACL = Price("web ACL a month", 5.00, 1, 0, f"{_AWS}/waf/pricing/")
WEB_ACL_RULE = Price("rule of a web ACL a month", 1.00, 1, 0, f"{_AWS}/waf/pricing/")
WEB_ACL_REQUEST = Price("request that a web ACL looks at", 0.60, _MILLION, 0, f"{_AWS}/waf/pricing/")
