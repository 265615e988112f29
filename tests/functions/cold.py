"""A cold start: a function's handler executed by its file, its folder first on the path, as Lambda does."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FUNCTIONS = Path(__file__).parents[2] / "functions"


@dataclass(frozen=True, slots=True)
class LambdaContext:
    """What Powertools reads of Lambda's context."""

    function_name: str = "function"
    function_version: str = "1"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:123456789012:function:function"
    aws_request_id: str = "52fdfc07-2182-454f-963f-5f0f9a621d72"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def cold_start(verb: str) -> ModuleType:
    """The module of `functions/<verb>/handler.py`, fresh, and with it the modules beside it."""
    folder = FUNCTIONS / verb
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and Path(path).parent == folder:
            del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(f"cold_{verb}_handler", folder / "handler.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module
