"""What Spark is told outside of the program is found."""

from __future__ import annotations

from pathlib import Path

from moldau.spark.submitted import submitted_settings

FILE = """
# settings of this machine
spark.sql.session.timeZone    Europe/Prague
spark.master=local[3]
spark.driver.extraJavaOptions -Dmine=1 -Dother="a b"
spark.empty
"""


def test_the_file_of_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(FILE)
    assert submitted_settings({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.sql.session.timeZone": "Europe/Prague",
        "spark.master": "local[3]",
        "spark.driver.extraJavaOptions": '-Dmine=1 -Dother="a b"',
        "spark.empty": "",
    }


def test_arguments_win_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(FILE)
    arguments = "--master 'local[2]' --conf spark.a=b=c -c 'spark.d=e f' --name it pyspark-shell"
    found = submitted_settings({"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": arguments})
    assert found["spark.master"] == "local[2]"
    assert (found["spark.a"], found["spark.d"], found["spark.app.name"]) == ("b=c", "e f", "it")
    assert found["spark.sql.session.timeZone"] == "Europe/Prague"


def test_nothing_said(tmp_path: Path) -> None:
    assert submitted_settings({"SPARK_CONF_DIR": str(tmp_path)}) == {}
