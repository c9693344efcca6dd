"""Reading an audit log while the API server writes it."""

from __future__ import annotations

from pathlib import Path

from support.threats.audit_log import AuditLog


def test_files_that_are_begun_meanwhile_are_read_too(tmp_path: Path) -> None:
    live = tmp_path / "audit.log"
    (tmp_path / "audit-2026-01-01T00-00-00.000.log").write_text('{"id": "long ago"}\n')
    live.write_text('{"id": "before"}\n')
    log = AuditLog(live)
    with live.open("a") as file:
        file.write('{"id": 1}\n{"id": 2}\n')
    assert [event["id"] for event in log.read()] == [1, 2]
    live.rename(tmp_path / "audit-2026-01-01T00-00-01.000.log")
    live.write_text('{"id": 3}\n')
    live.rename(tmp_path / "audit-2026-01-01T00-00-02.000.log")
    live.write_text('{"id": 4}\n{"id"')
    assert [event["id"] for event in log.read()] == [1, 2, 3, 4]
