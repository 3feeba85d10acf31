"""`bagwise FOLDER` says what lies there, and which command comes next; names are completed by the shell."""

import shlex

import pytest
from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.app.cli.main import SECTIONS
from bagwise.app.runs.look import look_at
from bagwise.core.exceptions import InputError


def run(*arguments, code=0, **options):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def songs(tmp_path):
    folder = tmp_path / "songs"
    (folder / "north").mkdir(parents=True)
    for name in ("a.wav", "b.wav", "north/c.wav"):
        (folder / name).write_bytes(b"RIFF")
    (folder / "notes.pdf").write_bytes(b"%PDF")
    return folder


def test_files_are_counted_and_the_table_that_names_them_is_found(songs):
    table = songs / "who.csv"
    table.write_text("file,labels\na.wav,wren;robin\nc,wren\nd.wav,crow\n")
    found = look_at(songs)
    assert (found.media_type, found.n_files, found.others) == ("audio", 3, {"text": 1})
    (fit,) = found.tables
    assert (fit.path, fit.n_rows, fit.n_found, fit.missing) == (str(table), 3, 2, ["d.wav"])
    assert fit.labels == {"wren": 2, "robin": 1, "crow": 1}


def test_a_table_next_to_the_folder_is_found_and_the_next_command_can_be_typed(songs):
    table = songs.parent / "labels.csv"
    table.write_text("file,labels\na.wav,wren\nb.wav,robin\n")
    output = run(songs)
    assert "3 files of type audio" in output
    line = next(line for line in output.splitlines() if "bagwise annotate" in line)
    words = shlex.split(line)
    assert words[:3] == ["bagwise", "annotate", str(songs)]
    assert words[words.index("--labels") + 1] == str(table)


def test_without_a_table_it_says_how_to_write_one(songs):
    output = run(songs)
    assert "file,labels" in output
    assert "bagwise cluster" in output


def test_a_table_of_other_files_is_none(songs):
    (songs / "labels.csv").write_text("file,labels\nx.wav,wren\ny.wav,robin\n")
    assert look_at(songs).tables == []


def test_runs_models_and_folders_of_nothing(tmp_path, songs):
    (songs / "manifest.json").write_text("{}")
    assert "bagwise review" in run(songs)
    model = tmp_path / "birds.bagwise"
    model.write_bytes(b"")
    assert "bagwise info" in run(model)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no files that bagwise can annotate" in run(empty)
    with pytest.raises(InputError, match="is not a folder"):
        look_at(model)


def test_a_word_that_is_neither_command_nor_path_is_a_wrong_command():
    assert "No such command 'anotate'" in run("anotate", code=2)


def test_no_summary_is_cut():
    """And every command that is shown stands in one section."""
    output = run("--help")
    assert "..." not in output.partition("Options:")[2]
    shown = [command.name for commands in SECTIONS.values() for command in commands]
    assert len(shown) == len(set(shown))
    assert set(shown) == {name for name, command in main.commands.items() if not command.hidden}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_written_where_the_shell_looks(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    output = run("--install-completion", env={"SHELL": f"/bin/{shell}", "HOME": str(tmp_path)})
    (written,) = [path for path in tmp_path.rglob("*bagwise*") if path.is_file()]
    assert str(written) in output
    assert "_BAGWISE_COMPLETE" in written.read_text()


def test_a_shell_without_completion_is_named():
    assert "tcsh" in run("--install-completion", code=2, env={"SHELL": "/bin/tcsh"})
