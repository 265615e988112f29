"""Keeps the developer's own AWS, proxies and certificates out of tests; names them alike in every process."""

import os

from hypothesis import settings

_OURS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}

for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
    del os.environ[name]
os.environ.update(_OURS)

# A shared machine is slow now and then; slowness is bench's business.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_make_parametrize_id(val: object) -> str | None:
    """A name that is the same in every process, where pytest would show an address in memory."""
    shown = getattr(val, "__qualname__", None) or repr(val)
    return f"{type(val).__name__}" if " at 0x" in shown else getattr(val, "__name__", None)
