"""Keeps the developer's own AWS, proxies and certificates out of every test."""

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
