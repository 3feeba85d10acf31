"""Names in a folder: they lead to files in it, through no link, and to nothing outside of it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bagwise.core.exceptions import InputError
from bagwise.io.files import check_tree, inside, open_ended, open_folder, walk

links = pytest.mark.skipif(os.name == "nt", reason="links need a right there that few have")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/..", "a/../../x", "/x", "//x", "./..", "a/.. /x", "...", "a\0b", "/"]
)
def test_names_that_lead_out_are_refused(name, tmp_path):
    with pytest.raises(InputError, match="relative"):
        inside(tmp_path, name)


@pytest.mark.parametrize("name", ["x", "a/b.wav", "a//b", "./a", "..x", ".x", "x..", "a b/é.wav", "a:b"])
def test_other_names_are_found(name, tmp_path):
    assert inside(tmp_path, name) == tmp_path / name


@given(st.lists(st.sampled_from(["..", ".", "a", "b c", "", "/", "...", "\\", "~", "\0", "%2e%2e"])).map("/".join))
def test_whatever_is_found_lies_in_the_folder(name):
    folder = Path(os.path.abspath("folder"))
    try:
        path = inside(folder, name)
    except InputError:
        return
    assert folder in Path(os.path.normpath(path)).parents


@links
@pytest.mark.parametrize("name", ["link", "link/x", "a/link", "a/link/x", "a/link/x/y"])
@pytest.mark.parametrize("target", ["there", "nowhere", "."])
def test_no_link_is_followed_on_the_way_or_at_its_end(name, target, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "folder" / "a").mkdir(parents=True)
    for place in ("link", "a/link"):
        (tmp_path / "folder" / place).symlink_to(tmp_path / target)
    for look in (inside, open_folder):
        with pytest.raises(InputError, match="is a link to .*; remove the link"):
            look(tmp_path / "folder", name)
    with pytest.raises(InputError, match="is a link"):
        check_tree(tmp_path / "folder")
    assert list((tmp_path / "there").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


@links
def test_the_folder_itself_may_be_behind_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "folder")
    assert open_folder(tmp_path / "way", "a/x") == tmp_path / "way" / "a" / "x"
    assert (tmp_path / "folder" / "a").is_dir()


@links
def test_pipes_are_refused_before_anybody_waits_for_them(tmp_path):
    os.mkfifo(tmp_path / "x")
    for look in (lambda: inside(tmp_path, "x"), lambda: check_tree(tmp_path)):
        with pytest.raises(InputError, match="pipe"):
            look()


@links
def test_a_walk_sees_links_and_goes_behind_none(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").touch()
    (tmp_path / "folder" / "a" / "b").mkdir(parents=True)
    (tmp_path / "folder" / "a" / "b" / "y").touch()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "there")
    found = {path.relative_to(tmp_path / "folder").as_posix() for path in walk(tmp_path / "folder")}
    assert found == {"a", "a/b", "a/b/y", "link"}
    assert list(walk(tmp_path / "nowhere")) == list(walk(tmp_path / "there" / "x")) == []


@links
def test_a_file_that_grows_has_one_name(tmp_path):
    assert open_ended(tmp_path, "x") == tmp_path / "x"
    (tmp_path / "x").touch()
    assert open_ended(tmp_path, "x") == tmp_path / "x"
    os.link(tmp_path / "x", tmp_path / "y")
    with pytest.raises(InputError, match="another name elsewhere"):
        open_ended(tmp_path, "x")
