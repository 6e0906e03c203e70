"""`tacit save`: a run as one file, as a folder, or on the hub."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from tacit.cli import options
from tacit.cli.terminal import say
from tacit.errors import SettingsError


def save(
    source: Annotated[
        str, options.run_argument("A run folder, world, FILE.tacit or hf://OWNER/NAME.")
    ],
    out: Annotated[
        str,
        Argument(
            metavar="FILE.tacit|FOLDER|hf://OWNER/NAME",
            help="A file to share, a run folder to make, or a repository to push to.",
        ),
    ],
    force: Annotated[bool, Option("--force", help="Replace the file, or the run there.")] = False,
    private: Annotated[
        bool, Option("--private", help="Make a repository that others cannot see.")
    ] = False,
    license: Annotated[
        str | None, Option(help="The license of the facts, for the model card: cc-by-4.0.")
    ] = None,
) -> None:
    """Save a run: to one file, to a repository of the Hugging Face Hub, or as a run folder.

    Files and repositories are asked where a run is, and only read: saved as a folder, a run can be
    changed.
    """
    from tacit.run.sharing import push_run, save_run
    from tacit.run.world import find_run
    from tacit.run_folder.hub import is_hub_name

    folder = find_run(source)
    if is_hub_name(out):
        say(f"pushed to {push_run(folder, out, private, license)}")
        return
    if private or license is not None:
        flag = "--private" if private else "--license"
        raise SettingsError(f"{flag} is for hf://OWNER/NAME, and '{out}' is none; leave it out")
    path = save_run(folder, out, force)
    say(f"saved to the {'folder' if path.is_dir() else 'file'} {path}")
