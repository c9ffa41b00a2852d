"""Every kernel test runs on the compiled kernels and on their twin."""

from __future__ import annotations

from types import ModuleType

import pytest

from moldau.kernels import _native, python


@pytest.fixture(params=[_native, python], ids=["native", "twin"])
def kernels(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module
