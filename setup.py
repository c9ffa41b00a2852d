"""Everything is declared in pyproject.toml; this file exists for the compiled kernel alone.

The kernel is optional: where it cannot be built, the install goes on with its pure-Python twin and says so.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNEL = "src/moldau/kernels/_native.c"

extensions = []
if Path(__file__).with_name("src").joinpath("moldau/kernels/_native.c").exists():
    extensions.append(
        Extension("moldau.kernels._native", [KERNEL], extra_compile_args=["-O3", "-std=c11"], optional=True)
    )

setup(ext_modules=extensions)
