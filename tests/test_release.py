"""The versions agree, and a tag publishes only what was compared, tested and tried."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import tacit
from project import PROJECT
from source_tree import ROOT

SCRIPT = ROOT / ".ci" / "release.py"
RELEASE: dict[str, Any] = runpy.run_path(str(SCRIPT))
WORKFLOW: dict[Any, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
)
JOBS: Mapping[str, Any] = WORKFLOW["jobs"]
ADDRESS = "https://example.org/tacit"


def commands(job: str) -> str:
    return "\n".join(step["run"] for step in JOBS[job]["steps"] if "run" in step)


def actions(job: str) -> dict[str, Any]:
    """The actions a job uses, without their versions, with their settings."""
    steps = [step for step in JOBS[job]["steps"] if "uses" in step]
    return {step["uses"].partition("@")[0]: step.get("with", {}) for step in steps}


def before(job: str) -> Iterator[str]:
    """The jobs that must succeed before a job."""
    needs = JOBS[job].get("needs", [])
    for name in [needs] if isinstance(needs, str) else needs:
        yield from (name, *before(name))


def test_one_version_is_written_everywhere() -> None:
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## \[(.+)\] - (unreleased|\d{4}-\d\d-\d\d)$", log, flags=re.MULTILINE)
    assert heading
    citation, recipe = (
        yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
        for name in ("CITATION.cff", "conda/recipe.yaml")
    )
    versions = {heading[1], tacit.__version__, citation["version"], recipe["package"]["version"]}
    assert versions == {PROJECT["version"]}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Log\n\n## [1.2.0] - 2030-01-02\n\n### Added\n\n- This.\n\n"
        "## [1.1.0] - 2029-01-01\n\n- Old.\n"
    )
    return tmp_path


def test_a_release_says_what_its_section_says(checkout: Path) -> None:
    assert RELEASE["notes"](checkout, "v1.2.0") == "### Added\n\n- This.\n"


@pytest.mark.parametrize(
    ("tag", "log", "complaint"),
    [
        ("v1.1.0", None, "the tag is v1.1.0, and the version 1.2.0"),
        ("1.2.0", None, "the tag is 1.2.0, and the version 1.2.0"),
        ("v1.2.0", "## [1.2.0] - unreleased\n", "begins with '[1.2.0] - unreleased'"),
        ("v1.2.0", "## [Unreleased]\n\n## [1.2.0] - 2030-01-02\n", "begins with '[Unreleased]'"),
        ("v1.2.0", "## [1.1.0] - 2029-01-01\n", "begins with '[1.1.0] - 2029-01-01'"),
    ],
)
def test_a_tag_that_does_not_agree_is_refused(
    tag: str, log: str | None, complaint: str, checkout: Path
) -> None:
    if log is not None:
        (checkout / "CHANGELOG.md").write_text(log)
    with pytest.raises(SystemExit, match=re.escape(complaint)):
        RELEASE["notes"](checkout, tag)


def test_links_lead_to_the_tag_from_wherever_the_text_is_read() -> None:
    text = "[a](docs/a.md#b), ![two\nlines](p.png), [c](https://x.org), [d](#d), `[e](f)`"
    assert RELEASE["absolute"](text, "v1", ADDRESS) == (
        f"[a]({ADDRESS}/blob/v1/docs/a.md#b), ![two\nlines]({ADDRESS}/raw/v1/p.png), "
        f"[c](https://x.org), [d](#d), `[e]({ADDRESS}/blob/v1/f)`"
    )


def test_the_script_prints_notes_and_rewrites_the_readme(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(ROOT / "README.md", checkout)
    monkeypatch.chdir(checkout)
    monkeypatch.setattr("sys.argv", ["release.py", "v1.2.0", ADDRESS])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out == "### Added\n\n- This.\n"
    readme = (checkout / "README.md").read_text(encoding="utf-8")
    assert f"({ADDRESS}/blob/v1.2.0/docs/install.md)" in readme
    assert f"({ADDRESS}/raw/v1.2.0/docs/images/page.png)" in readme
    assert re.findall(r"\]\((?!https?:|#)", readme) == []


def test_a_tag_starts_it_and_what_is_published_was_tested_and_tried() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML reads the word `on` as a truth
    assert set(before("publish")) == {"tests", "build", "try"}
    assert set(before("announce")) == {"tests", "build", "try", "publish"}
    called = ROOT / JOBS["tests"]["uses"]
    assert "workflow_call" in yaml.safe_load(called.read_text(encoding="utf-8"))[True]


def test_what_is_built_is_compared_with_the_tag_first() -> None:
    lines = commands("build").splitlines()
    compare = 'python .ci/release.py "$GITHUB_REF_NAME" "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"'
    assert lines[0] == f"{compare} > notes.md"
    assert lines.index("python -m build") > 0
    assert "twine check --strict" in commands("build")
    for job in ("try", "publish", "announce"):
        assert "actions/checkout" not in actions(job)  # they have what was built, and nothing else
        assert "actions/download-artifact" in actions(job)


def test_it_is_tried_as_the_pages_say() -> None:
    install = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    tried = commands("try").replace("dist/*.whl", "tacit-kg")
    assert "uvx --from tacit-kg tacit demo" in install
    assert re.search(r"^uvx .*--from tacit-kg tacit demo$", tried, flags=re.MULTILINE)
    assert "pipx run --spec tacit-kg tacit" in install
    assert re.search(r"^pipx run --spec tacit-kg tacit ask", tried, flags=re.MULTILINE)
    assert re.search(r"^tacit ask world", tried, flags=re.MULTILINE)


def test_it_publishes_without_a_password_and_with_attestations() -> None:
    publish = JOBS["publish"]
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {
        "contents": "read", "id-token": "write", "attestations": "write",
    }  # fmt: skip
    used = actions("publish")
    assert used["actions/attest-build-provenance"] == {"subject-path": "dist/*"}
    assert used["pypa/gh-action-pypi-publish"] == {"attestations": True}  # and no password
    assert "secrets." not in str(WORKFLOW)
    others = [job.get("permissions", {}) for name, job in JOBS.items() if name != "publish"]
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not any("id-token" in permissions for permissions in others)


def test_the_release_has_the_section_as_its_text() -> None:
    assert JOBS["announce"]["permissions"] == {"contents": "write"}
    create = commands("announce")
    assert create.startswith('gh release create "$GITHUB_REF_NAME" dist/* --verify-tag')
    assert create.endswith("--notes-file notes.md")
