"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.spark.java import JavaMissing, find_java_home, parse_version


def install(home: Path) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", 0),
    ],
)
def test_versions_are_read(text: str, version: int) -> None:
    assert parse_version(text) == version


def test_java_home_comes_first(tmp_path: Path) -> None:
    named, other = install(tmp_path / "named"), install(tmp_path / "other")
    environment = {"JAVA_HOME": str(named), "PATH": str(other / "bin"), "HOME": str(tmp_path)}
    assert find_java_home(environment, lambda _: 17) == named


def test_an_old_one_is_passed_over(tmp_path: Path) -> None:
    old, new = install(tmp_path / "old"), install(tmp_path / "new")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin"), "HOME": str(tmp_path)}
    assert find_java_home(environment, lambda java: 11 if old in java.parents else 21) == new


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    real = install(tmp_path / "jvm")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert find_java_home({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}, lambda _: 17) == real


def test_the_users_cache_is_looked_into(tmp_path: Path) -> None:
    kept = install(tmp_path / "moldau" / "java" / "jdk-17.0.9+9-jre")
    assert find_java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}, lambda _: 17) == kept


def test_without_java_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"needs Java 17 .* no java on the PATH.*apt install .*install-jdk"):
        find_java_home({"PATH": str(tmp_path), "HOME": str(tmp_path)})


def test_a_program_that_does_not_run_is_named(tmp_path: Path) -> None:
    home = tmp_path / "broken"
    with pytest.raises(JavaMissing, match=r"broken/bin/java is not usable"):
        find_java_home({"JAVA_HOME": str(home), "PATH": "", "HOME": str(tmp_path)})
