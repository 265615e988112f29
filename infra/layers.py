"""The two layers and the handlers' code, bundled on this machine without Docker."""

import sys
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.bundle import FOR_LAMBDA, WHEELS, bundle
from infra.config import StageConfig

ROOT = Path(__file__).parent.parent
RUNTIME = lambda_.Runtime.PYTHON_3_13


class MissingSourceError(Exception):
    """A directory that the stack deploys does not exist."""


class Layers(Construct):
    """`dependencies`, the third-party wheels, and `hookkeeper`, our own library.

    The embedded AWS runs the functions under its own interpreter, which has the wheels already.
    """

    def __init__(self, scope: Construct, id_: str, *, config: StageConfig) -> None:
        super().__init__(scope, id_)
        hookkeeper = self._layer("Hookkeeper", "layers/hookkeeper", "Hookkeeper's own library")
        self.versions: list[lambda_.ILayerVersion] = [hookkeeper]
        if not config.embedded:
            self.versions.append(
                self._layer(
                    "Dependencies", "layers/dependencies", "Third-party wheels for Python 3.13, arm64"
                )
            )

    def _layer(self, id_: str, source: str, description: str) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self, id_, code=bundled(source), description=description, compatible_runtimes=[RUNTIME]
        )


def bundled(source: str) -> lambda_.AssetCode:
    """The directory `source` of this project, ready for Lambda. Raises MissingSourceError."""
    path = ROOT / source
    if not path.is_dir():
        raise MissingSourceError(f"{source} is deployed, but there is no such directory")
    return lambda_.Code.from_asset(
        str(path),
        exclude=["__pycache__", "*.pyc"],
        asset_hash_type=cdk.AssetHashType.SOURCE,
        # CDK hashes `command`, not the bundler: a changed flag must show there or the asset stays stale.
        bundling=cdk.BundlingOptions(
            image=RUNTIME.bundling_image,
            command=[*WHEELS, *FOR_LAMBDA, "unchecked-hash", sys.implementation.cache_tag],
            local=_Bundler(path),
        ),
    )


@jsii.implements(cdk.ILocalBundling)
class _Bundler:
    def __init__(self, source: Path) -> None:
        self._source = source

    def try_bundle(self, output_dir: str, *_: object, **__: object) -> bool:
        """True, because there is no second way."""
        bundle(self._source, Path(output_dir))
        return True
