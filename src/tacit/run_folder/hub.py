"""Runs on the Hugging Face Hub: their files, the list of their checksums, and a model card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Self

from tacit import __version__
from tacit.errors import RunError, SettingsError, TacitError
from tacit.run_folder.files import is_saved_file
from tacit.run_folder.run_cache import DOWNLOAD_PREFIX, cache_folder
from tacit.run_folder.saved import MANIFEST, Manifest, OpenFile

CARD = "README.md"
_NAME = re.compile(r"(?:hf:/{1,2})?(?P<repository>(?:[\w.-]+/)?[\w.-]+)(?:@(?P<revision>[^@\s]+))?")
_EXAMPLE = "write hf://OWNER/NAME, or hf://OWNER/NAME@REVISION"
_LIBRARY: dict[str, Any] = {"library_name": "tacit", "library_version": __version__}


def is_hub_name(source: Any) -> bool:
    """Whether a source names a repository of the hub."""
    return str(source).startswith("hf:/")  # a path has one slash, a text two


@dataclass(frozen=True)
class HubName:
    """The name of a repository of the hub, and a revision of it: a branch, a tag or a commit."""

    repository: str
    revision: str | None = None

    @classmethod
    def parse(cls, source: Any) -> Self:
        """Read `OWNER/NAME` or `hf://OWNER/NAME@REVISION`; a missing owner is the user."""
        match = _NAME.fullmatch(str(source))
        if match is None:
            raise RunError(f"'{source!s:.200}' names no repository of the hub; {_EXAMPLE}")
        return cls(**match.groupdict())

    def __str__(self) -> str:
        return f"hf://{self.repository}" + (f"@{self.revision}" if self.revision else "")


@contextmanager
def opened_repository(name: HubName) -> Iterator[tuple[Manifest, OpenFile]]:
    """Yield the manifest of a repository, and what fetches its files one by one.

    All files are of one commit, that of the manifest, which is in the hub's own cache from then on.
    """
    with _hub_errors(name) as api:
        if "/" not in name.repository:
            name = HubName(f"{api.whoami()['name']}/{name.repository}", name.revision)
        listed = Path(api.hf_hub_download(name.repository, MANIFEST, revision=name.revision))
        manifest = Manifest.parse(listed.read_bytes(), str(name))
    commit = listed.parent.name
    is_checked = False

    @contextmanager
    def open_file(file: str) -> Iterator[IO[bytes]]:
        nonlocal is_checked
        with TemporaryDirectory(prefix=DOWNLOAD_PREFIX, dir=cache_folder()) as folder:
            with _hub_errors(name) as api:
                if not is_checked:  # before a file that would fill the disk
                    _check_sizes(api, name, commit, manifest)
                is_checked = True
                fetched = api.hf_hub_download(
                    name.repository, file, revision=commit, local_dir=folder
                )
            with Path(fetched).open("rb") as content:
                yield content

    yield manifest, open_file


def _check_sizes(api: Any, name: HubName, commit: str, manifest: Manifest) -> None:
    """Raise a `RunError` unless the hub has all files of a manifest, in their sizes."""
    found = api.get_paths_info(name.repository, list(manifest.files), revision=commit)
    sizes = {file.path: file.size for file in found}
    for file, (size, _) in manifest.files.items():
        if sizes.get(file) != size:
            raise RunError(
                f"{name} is damaged: {file} is missing, or not as large as its {MANIFEST} says; "
                "ask whoever pushed it to push it once more"
            )


def push(folder: Path, name: HubName, card_of: Callable[[HubName], str], private: bool) -> HubName:
    """Push the run in a folder and its model card as one commit; the name of that commit.

    Files of a run that was there before, and that this one lacks, are deleted.
    """
    if name.revision:
        raise SettingsError(f"{name} has a revision, and a run is pushed to main; leave it out")
    manifest = Manifest.of(folder)
    with _hub_errors(name, writes=True) as api:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        repository = api.create_repo(name.repository, private=private, exist_ok=True).repo_id
        obsolete = {file for file in api.list_repo_files(repository) if is_saved_file(file)}
        operations: list[Any] = [
            *(CommitOperationAdd(file, str(folder / file)) for file in manifest.files),
            CommitOperationAdd(MANIFEST, manifest.to_bytes()),
            CommitOperationAdd(CARD, card_of(HubName(repository)).encode()),
            *map(CommitOperationDelete, sorted(obsolete - manifest.files.keys())),
        ]
        commit = api.create_commit(repository, operations, commit_message="Push a run of Tacit")
        return HubName(repository, commit.oid)


@contextmanager
def _hub_errors(name: HubName, writes: bool = False) -> Iterator[Any]:
    """Yield the interface of the hub; what goes wrong there is a `RunError` in our words."""
    try:
        from huggingface_hub import HfApi, errors
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"{name} is on the hub, which needs {error.name}; install it with: "
            "pip install 'tacit-kg[hub]'"
        ) from None
    try:
        yield HfApi(**_LIBRARY)
    except (TacitError, KeyboardInterrupt, MemoryError):
        raise
    except errors.LocalTokenNotFoundError:
        raise RunError(
            f"{name} has no owner, and nobody is logged in; write hf://OWNER/NAME, or set HF_TOKEN"
        ) from None
    except errors.HFValidationError:
        raise RunError(f"{name} is no name of a repository; {_EXAMPLE}") from None
    except errors.RevisionNotFoundError:
        raise RunError(
            f"{name} has no revision '{name.revision}'; give a branch, a tag or a commit that it "
            "has"
        ) from None
    except errors.RepositoryNotFoundError:
        raise RunError(
            f"{name} is not there, or is private; check the name, and that HF_TOKEN may read it"
        ) from None
    except errors.RemoteEntryNotFoundError:
        raise RunError(f"{name} is no run of Tacit: it has no {MANIFEST}") from None
    except Exception as error:  # of the network, in many forms
        raise RunError(f"{name} {_failure(error, writes)}") from None


def _failure(error: Exception, writes: bool) -> str:
    """What a request that failed means for who made it, and what would help."""
    reason = " ".join(str(error.__cause__ or error).split())[:200]
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return f"may not be {'written' if writes else 'read'} with this HF_TOKEN ({reason})"
    if writes:
        return f"was not written ({reason}); push it once more"
    return f"was not fetched ({reason}); the same call goes on with the files it lacks"
