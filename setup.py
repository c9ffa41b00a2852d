"""Everything is declared in pyproject.toml; this file exists for the compiled kernel alone.

The kernel is optional: where it cannot be built, the install goes on with its pure-Python twin and says so.
"""

from glob import glob

from setuptools import Extension, setup

KERNEL = Extension(
    "moldau.kernels._native",
    ["src/moldau/kernels/_native.c"],
    depends=glob("src/moldau/kernels/*.h"),
    extra_compile_args=["-O3", "-std=c11"],
    optional=True,
)

setup(ext_modules=[KERNEL])
