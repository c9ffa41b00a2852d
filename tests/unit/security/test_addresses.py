import pytest

from moldau.types.addresses import canonical


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::ffff:0a00:0007", "10.0.0.7"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1%eth0", "fe80::1%eth0"),
        ("*", "*"),
        ("kafka.example", "kafka.example"),
        ("", ""),
    ],
)
def test_an_address_has_one_writing(written: str, meant: str) -> None:
    assert canonical(written) == meant
