"""The sdist, the wheel, and what an environment that has nothing else does with it."""

from __future__ import annotations

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tacit
from project import EXTRAS, FOR_DEVELOPERS, needed
from quick_world import quick_world
from source_tree import ROOT
from tacit.graph.datasets import load

BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)
BESIDE = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
INCLUDED = ("CHANGELOG.md", "CITATION.cff", "SECURITY.md")
LICENCES = ("LICENSE", "src/tacit/graph/world/LICENSE")


def built(tree: Path, what: str, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BUILD, what, str(out)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of the checkout; a test beside the package shows what is left out."""
    folder = tmp_path_factory.mktemp("sdist")
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "tree" / "src", ignore=unwanted)
    for name in (*BESIDE, *INCLUDED, "tests/source_tree.py", "tests/test_installed.py"):
        (folder / "tree" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / "tree" / name)
    return built(folder / "tree", "build_sdist", folder / "out")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is made of the sdist, in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return built(unpacked, "build_wheel", folder / "index")


def package_files() -> set[str]:
    """The files of the package, from the folder it lies in."""
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "tacit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_sdist_holds_what_builds_the_wheel_its_licences_and_its_history(sdist: Path) -> None:
    stem = f"tacit_kg-{tacit.__version__}"
    assert sdist.name == f"{stem}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {member.name for member in archive if member.isfile()}
    made = {"PKG-INFO", "setup.cfg"}
    expected = made | {*BESIDE, *INCLUDED} | {f"src/{name}" for name in package_files()}
    assert {name for name in names if ".egg-info/" not in name} == {
        f"{stem}/{name}" for name in expected
    }


def test_the_wheel_holds_the_package_its_licences_and_nothing_else(wheel: Path) -> None:
    about = f"tacit_kg-{tacit.__version__}.dist-info"
    assert wheel.name == f"tacit_kg-{tacit.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        metadata = email.message_from_bytes(archive.read(f"{about}/METADATA"))
        points = archive.read(f"{about}/entry_points.txt").decode()
    assert {name for name in names if not name.startswith(about)} == package_files()
    assert {f"{about}/licenses/{name}" for name in LICENCES} <= names
    assert (metadata["Name"], metadata["License-Expression"]) == ("tacit-kg", "Apache-2.0")
    assert set(metadata.get_all("Provides-Extra", [])) == set(EXTRAS)
    assert "tacit = tacit.cli:main" in points


class Environment:
    """A virtual environment whose only packages are those that Tacit depends on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (self.site,) = folder.glob("lib/python*/site-packages")
        for name in runtime_packages():
            for top in {file.parts[0] for file in distribution(name).files or ()} - {".."}:
                place = Path(str(distribution(name).locate_file(top)))
                if top != "__pycache__" and not (self.site / top).exists():
                    (self.site / top).symlink_to(place)

    def run(
        self, *words: str, cwd: Path, cache: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which sees nothing of the checkout."""
        outside = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        program, *arguments = words
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=cwd,
            env=outside | {"TACIT_CACHE": str(cache or cwd / "cache"), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )


def runtime_packages() -> set[str]:
    """The packages that are installed with Tacit, and with those."""
    found: set[str] = set()
    queue = [*needed("").values()]
    while queue:
        name = canonicalize_name(queue.pop().name)
        if name not in found:
            found.add(name)
            inner = map(Requirement, distribution(name).requires or ())
            queue += [one for one in inner if not one.marker or one.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment that pip installed the distribution into, by its name, from a folder."""
    environment = Environment(tmp_path_factory.mktemp("environment") / "venv")
    python = str(environment.folder / "bin" / "python")
    index = ["--no-index", "--find-links", str(wheel.parent), "--no-cache-dir"]
    outside = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *index, "tacit-kg"],
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Successfully installed tacit-kg-{tacit.__version__}" in done.stdout
    return environment


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds `world`, hardly trained."""
    return quick_world(tmp_path_factory.mktemp("cache")).parent


def test_it_is_imported_without_the_checkout(installed: Environment, tmp_path: Path) -> None:
    script = (
        "import tacit; from importlib import metadata; from importlib.resources import files\n"
        "print(tacit.__file__, metadata.version('tacit-kg') == tacit.__version__)\n"
        "print(tacit.parse('?c : borders(France, ?c)'), "
        "(files('tacit.server') / 'static' / 'index.html').is_file())"
    )
    done = installed.run("python", "-c", script, cwd=tmp_path)
    home = installed.site / "tacit" / "__init__.py"
    assert done.stdout.splitlines() == [f"{home} True", "?c : borders(France, ?c) True"]
    version = installed.run("tacit", "--version", cwd=tmp_path)
    assert version.stdout == f"tacit {tacit.__version__}\n"


def test_the_command_answers_without_the_checkout(
    installed: Environment, cache: Path, tmp_path: Path
) -> None:
    question = "?c : borders(France, ?c)"
    done = installed.run(
        "tacit", "ask", "world", question, "--top", "all", cwd=tmp_path, cache=cache
    )
    assert done.returncode == 0, done.stderr
    graph = load("world")
    france, borders = graph.entities.id("France"), graph.relations.id("borders")
    facts = graph.train[(graph.train[:, :2] == (france, borders)).all(axis=1)]
    known = re.findall(r"^ +\d+\. (.+?)  .* known$", done.stdout, flags=re.MULTILINE)
    assert {graph.entities[tail] for _, _, tail in facts.tolist()} <= set(known)


def test_the_demo_walks_without_the_checkout(
    installed: Environment, cache: Path, tmp_path: Path
) -> None:
    shutil.copytree(next(cache.glob("world-*")), tmp_path / "runs" / "demo")
    done = installed.run("tacit", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    titles = re.findall(r"^(\d)\. [A-Z].*\n(?:.*\n)?\$ tacit", done.stdout, flags=re.MULTILINE)
    assert titles == list("12345678")
    assert "did you mean 'borders'?" in done.stderr
    assert " serve runs/demo" in done.stdout


ASKING = "import tacit; tacit.open('world').ask('?c : borders(France, ?c)')"
# What asks for each extra.
LACKING = {
    "rdf": ["tacit ask world 'SELECT ?c { <France> <borders> ?c }'", "tacit data describe f.nt"],
    "server": ["tacit serve world"],
    "mcp": ["tacit mcp world"],
    "plots": ["python -c 'from tacit.evaluate.figures import blank; blank()'"],
    "pandas": [f'python -c "{ASKING}.to_pandas()"'],
    "frames": ["python -c \"import tacit; tacit.load('world').to_frame('polars')\""],
    "pyg": ["python -c \"import tacit; tacit.load('world').to_pyg()\""],
    "pykeen": ["tacit data describe pykeen:nations"],
    "index": ["tacit index world"],
    "hub": ["tacit ask hf://owner/name '?c : borders(France, ?c)'"],
    **{
        tracker: [f"tacit train world --out run --track {tracker}"]
        for tracker in ("tensorboard", "mlflow", "wandb")
    },
    "large": ["tacit data describe f.parquet", f"python -c \"{ASKING}.to_parquet('a.parquet')\""],
}


def test_every_extra_is_asked_for() -> None:
    assert set(LACKING) == set(EXTRAS) - FOR_DEVELOPERS


@pytest.mark.parametrize(
    ("extra", "line"), [(extra, line) for extra, lines in LACKING.items() for line in lines]
)
def test_what_lacks_an_extra_names_it_by_the_distribution(
    extra: str, line: str, installed: Environment, cache: Path, tmp_path: Path
) -> None:
    for name in ("f.nt", "f.parquet"):
        (tmp_path / name).write_text("")
    done = installed.run(*shlex.split(line), cwd=tmp_path, cache=cache)
    assert done.returncode != 0
    assert f"install it with: pip install 'tacit-kg[{extra}]'" in done.stderr
