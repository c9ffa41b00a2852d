"""What a session is told, for each master and beside the caller's own settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.spark.session import cores_of, first_on_python_path, session, session_settings


@pytest.mark.parametrize(
    ("master", "settings", "cores"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[4, 2]", {}, 4),
        ("local[*]", {}, len(os.sched_getaffinity(0))),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.cores.max": "6"}, 6),
        ("yarn", {"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
    ],
)
def test_cores_are_what_the_master_says(master: str, settings: dict[str, str], cores: int | None) -> None:
    assert cores_of(master, settings) == cores


def test_given_settings_win() -> None:
    given = {"spark.sql.shuffle.partitions": "7", "spark.sql.session.timeZone": "CET"}
    made = session_settings("local[2]", given)
    assert made["spark.sql.shuffle.partitions"] == "7"
    assert made["spark.sql.session.timeZone"] == "CET"
    assert made["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")


def test_java_options_of_the_caller_are_kept_beside_the_quiet_log() -> None:
    made = session_settings("local", {"spark.driver.extraJavaOptions": "-Xss4m"})
    assert made["spark.driver.extraJavaOptions"].endswith(" -Xss4m")
    assert "log4j2.properties" in made["spark.driver.extraJavaOptions"]


def test_java_keeps_temporary_files_where_python_does() -> None:
    made = session_settings("local", {"spark.driver.extraJavaOptions": "-Djava.io.tmpdir=/mine"}, temporary="/a b")
    assert made["spark.driver.extraJavaOptions"].endswith(' "-Djava.io.tmpdir=/a b" -Djava.io.tmpdir=/mine')


def test_what_spark_was_told_before_is_not_said_otherwise() -> None:
    said = {"spark.sql.session.timeZone": "CET", "spark.python.daemon.module": "pyspark.daemon", "spark.cores.max": "5"}
    made = session_settings("spark://host:7077", {}, {**said, "spark.driver.extraJavaOptions": "-Xss4m"})
    assert not {"spark.sql.session.timeZone", "spark.python.daemon.module"} & set(made)
    assert made["spark.sql.shuffle.partitions"] == "5"
    assert made["spark.driver.extraJavaOptions"].endswith(" -Xss4m")
    assert session_settings("local", {"spark.sql.session.timeZone": "UTC"}, said)["spark.sql.session.timeZone"] == "UTC"


def test_nothing_of_local_mode_reaches_a_cluster() -> None:
    made = session_settings("spark://host:7077", {})
    assert "spark.driver.host" not in made
    assert "spark.sql.shuffle.partitions" not in made


def test_the_user_interface_and_the_preloading_can_be_switched_off() -> None:
    made = session_settings("local", {}, ui=False, preload=False)
    assert made["spark.ui.enabled"] == "false"
    assert not {"spark.python.daemon.module", "spark.python.worker.module"} & set(made)
    more = session_settings("local", {}, preload=["pandas", "torch"])
    assert more["spark.executorEnv.MOLDAU_SPARK_PRELOAD"] == "pandas,torch"


@pytest.mark.parametrize(("before", "within"), [({}, "/start"), ({"PYTHONPATH": "/mine"}, "/start:/mine")])
def test_the_path_of_python_is_changed_for_the_start_of_java_only(before: dict[str, str], within: str) -> None:
    environment = dict(before)
    with first_on_python_path(Path("/start"), environment):
        assert environment == before | {"PYTHONPATH": within}
    assert environment == before


def test_a_setting_that_is_none_of_sparks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'sparc\.ui'"):
        session(settings={"sparc.ui": "no"})


def test_without_pyspark_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import moldau.spark; moldau.spark.session()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1].endswith("pip install 'moldau[spark]'")
