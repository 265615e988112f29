"""What `cdk` runs: one stack for the stage that the context asks for, checked by cdk-nag."""

import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.config import StageConfig, StageRefusedError, stage_config
from infra.stack import HookkeeperStack


def build(app: cdk.App) -> HookkeeperStack:
    """The stack of the app's context. Raises StageRefusedError."""
    config = stage_config(app.node.try_get_context)
    stack = HookkeeperStack(
        app, f"Hookkeeper-{config.stage}", config=config, synthesizer=_synthesizer(config)
    )
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return stack


def _synthesizer(config: StageConfig) -> cdk.IStackSynthesizer | None:
    """On the embedded AWS the caller's own credentials do it all; the bootstrap's roles are not needed."""
    return cdk.CliCredentialsStackSynthesizer() if config.embedded else None


def main() -> None:
    app = cdk.App()
    try:
        build(app)
    except StageRefusedError as refusal:
        sys.exit(f"hookkeeper: {refusal}")
    app.synth()


if __name__ == "__main__":
    main()
