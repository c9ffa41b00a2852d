"""ApiVersions: what is announced, and the one request that is answered at any version."""

from tests.conformance.messages import encode_request
from tests.conformance.scenario import scenario
from tests.conformance.session import Session


@scenario("api_versions")
def api_versions(s: Session, version: int) -> None:
    named = {"client_software_name": "conformance", "client_software_version": "1.0"}
    s.ask("announced", "api_versions", named)
    s.ask("twice on a connection", "api_versions", named)
    for label, name, software_version in (
        ("software name with a space", "con formance", "1"),
        ("software name is empty", "", "1"),
        ("software version is empty", "conformance", ""),
        ("software name ends with a dash", "conformance-", "1"),
        ("software name with dots and dashes", "con-for.mance", "1.2-3.4"),
        ("software name is not ASCII", "größe", "1"),
    ):
        s.ask(label, "api_versions", {"client_software_name": name, "client_software_version": software_version})


@scenario("api_versions", versions=[5, 99])
def api_versions_from_the_future(s: Session, version: int) -> None:
    body = encode_request("api_versions", 4, {"client_software_name": "a", "client_software_version": "1"})
    s.ask_bytes("answered at version 0", "api_versions", version, body, answer_version=0)
    s.ask_bytes("empty body", "api_versions", version, b"", answer_version=0)
    s.ask_bytes("random body", "api_versions", version, b"\xfe\xdc\xba" * 20, answer_version=0)
    s.ask("the connection serves on", "metadata", {"topics": []}, version=12)
