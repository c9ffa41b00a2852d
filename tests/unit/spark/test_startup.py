"""Which PySpark the Python processes of Spark import, and what becomes of another `sitecustomize`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.spark.session import STARTUP_FOLDER
from moldau.spark.startup.sitecustomize import without_zips


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with packages, as pip leaves it."""
    for package in ("pyspark", "py4j"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    return tmp_path


def zips_of(installed: Path) -> list[str]:
    home = installed / "pyspark"
    library = home / "python" / "lib"
    return [str(library / "pyspark.zip"), str(library / "py4j-src.zip"), str(home / "jars" / "spark-core.jar")]


def test_what_lies_within_the_installed_package_leaves_the_path(installed: Path) -> None:
    zips = zips_of(installed)
    assert without_zips([*zips, "/code", *zips, str(installed)]) == ["/code", str(installed)]


def test_a_path_without_the_package_is_left_alone(installed: Path) -> None:
    path = [*zips_of(installed), "/code"]
    assert without_zips(path) == path


def test_another_pyspark_before_the_package_is_no_reason_to_import_it(installed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "pyspark").mkdir(parents=True)
    (other / "pyspark" / "__init__.py").write_text("")
    path = [*zips_of(installed), str(other), str(installed)]
    assert without_zips(path) == path


def test_without_py4j_beside_the_package_its_zip_stays(installed: Path) -> None:
    (installed / "py4j" / "__init__.py").unlink()
    (installed / "py4j").rmdir()
    path = [*zips_of(installed), str(installed)]
    assert without_zips(path) == path


def test_a_spark_that_pip_did_not_install_is_left_alone(installed: Path) -> None:
    path = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-src.zip", str(installed)]
    assert without_zips(path) == path


def test_python_runs_it_first_and_then_the_one_that_it_hides(installed: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("RAN = True")
    path = ":".join([*zips_of(installed), str(STARTUP_FOLDER), str(hidden), str(installed)])
    code = "import pyspark, sitecustomize, sys; print(pyspark.__file__, sitecustomize.RAN, 'zip' in str(sys.path[1:3]))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split() == [str(installed / "pyspark" / "__init__.py"), "True", "False"]
