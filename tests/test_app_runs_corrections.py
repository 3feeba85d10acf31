"""The table of corrections: nothing that was answered is lost, whatever people and power cuts do to the file."""

import csv
import errno
import io
import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.app.runs.corrections import (
    ABSENT,
    CONFIRMED,
    LABEL,
    NOISE,
    OUTDATED,
    PRESENT,
    Correction,
    CorrectionLog,
    check_correction,
)
from bagwise.core.exceptions import FormatError, InputError

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


def said(log):
    return [(entry.bag, entry.instance, entry.label, entry.action) for entry in log.in_force()]


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(
        st.lists(st.tuples(NAMES, st.integers(0, 99), NAMES), min_size=1, max_size=4).map(tuple) | st.just("undo"),
        max_size=12,
    )
)
def test_what_counts_is_what_a_stack_would_hold(tmp_path_factory, calls):
    """Against a plain list of calls; after every call the file is read again by somebody else."""
    path = tmp_path_factory.mktemp("log") / "corrections.csv"
    log, stack = CorrectionLog(path), []
    for call in calls:
        if call == "undo":
            taken = log.undo()
            assert [(c.bag, c.instance, c.label) for c in taken] == (list(stack.pop()) if stack else [])
        else:
            log.append([Correction(*triple, LABEL) for triple in call])
            stack.append(call)
        expected = [(*triple, LABEL) for kept in stack for triple in kept]
        assert said(log) == said(CorrectionLog(path)) == expected


@pytest.fixture
def answered(tmp_path):
    """A log with one call, which nothing that follows may lose."""
    log = CorrectionLog(tmp_path / "corrections.csv")
    log.append([Correction("a.wav", 0, "wren", LABEL)])
    return log


A_CALL = [Correction(f"b{i}.wav", i, "owl", LABEL) for i in range(39)]


def check_nothing_of_it_is_there(log, before):
    """The file is what it was, in memory too, and the next call is not glued to anything."""
    assert log.path.read_bytes() == before
    assert said(log) == said(CorrectionLog(log.path)) == [("a.wav", 0, "wren", LABEL)]
    log.append([Correction("c.wav", 1, "robin", LABEL)])
    again = CorrectionLog(log.path)
    assert said(again) == said(log) == [("a.wav", 0, "wren", LABEL), ("c.wav", 1, "robin", LABEL)]
    assert again.problems == []
    assert os.listdir(log.path.parent) == ["corrections.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
@pytest.mark.parametrize("room", [0, 1, 20, 500])
def test_a_call_for_which_there_is_no_room_leaves_nothing(answered, room):
    """The system itself refuses to let the file grow; Python has its signal ignored."""
    import resource

    before, limits = answered.path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, limits[1]))
        with pytest.raises(OSError, match="The disk is full: nothing of this was written"):
            answered.append(A_CALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    check_nothing_of_it_is_there(answered, before)


@pytest.mark.parametrize(("call", "number"), [("write", errno.ENOSPC), ("fsync", errno.EIO), ("fsync", errno.ENOSPC)])
def test_a_call_that_the_disk_refuses_leaves_nothing(answered, monkeypatch, call, number):
    before, real, synced = answered.path.read_bytes(), getattr(os, call), []

    def fails_after_half(descriptor, data=None):
        if call == "fsync":
            synced.append(os.fstat(descriptor).st_size)
            if len(synced) > 1:  # when the file is cut back
                return real(descriptor)
        elif len(data) > 100:
            return real(descriptor, data[: len(data) // 2])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails_after_half)
    with pytest.raises(OSError, match="disk is full" if number == errno.ENOSPC else "output error"):
        answered.append(A_CALL)
    monkeypatch.undo()
    if call == "fsync":
        assert synced[1:] == [len(before)], "the cut must be on the disk before the error is reported"
    check_nothing_of_it_is_there(answered, before)


def test_what_cannot_even_be_cut_back_is_cut_before_the_next_call(answered, monkeypatch):
    """The disk fails for good, and is well again later; in the next process too."""
    real = os.write

    def refuse(*_):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:300]) if data[300:] else refuse())
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(OSError, match="broken"):
        answered.append(A_CALL)
    monkeypatch.undo()
    torn = answered.path.read_bytes()
    assert torn.count(b"owl") > 3
    assert said(CorrectionLog(answered.path)) == [("a.wav", 0, "wren", LABEL)]
    answered.append([Correction("c.wav", 1, "robin", LABEL)])
    assert said(CorrectionLog(answered.path)) == said(answered)
    assert b"owl" not in answered.path.read_bytes()


def test_a_call_is_there_whole_or_not_at_all(answered):
    """Cut off at any row, and within the last: all 39 count or none, and what does not is set aside."""
    whole = answered.path.read_bytes()
    answered.append(A_CALL)
    full, path = answered.path.read_bytes(), answered.path
    rows = [i + 1 for i in range(len(whole), len(full)) if full[i : i + 1] == b"\n"]
    for cut in [*rows, *range(rows[-2] + 1, len(full))]:
        path.write_bytes(full[:cut])
        log = CorrectionLog(path)
        assert len(said(log)) == (40 if cut >= len(full) - 1 else 1)
        assert bool(log.problems) == (cut < len(full) - 1)
    path.write_bytes(full[: rows[19]])
    log = CorrectionLog(path)
    assert "row 3 and what follows: the call was never finished" in log.problems[0][1]
    log.append([Correction("c.wav", 1, "robin", LABEL)])
    assert said(CorrectionLog(path)) == [("a.wav", 0, "wren", LABEL), ("c.wav", 1, "robin", LABEL)]
    assert CorrectionLog(path).problems == []
    (aside,) = path.parent.glob("corrections-unfinished-*.csv")
    assert aside.read_bytes() == whole.split(b"\n")[0] + b"\n" + full[len(whole) : rows[19]]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda rows: rows, "abcde"),
        (lambda rows: [*rows, "x,0,owl,,,,,,"], "abcdex"),  # a row of a person's own, without a number
        (lambda rows: [*rows, "x,0,owl,,,,1,,"], "abcdex"),  # one that was copied from a call that has an end
        (lambda rows: [*rows, "x,0,owl,,,,9,,"], "abcde!"),  # this looks like what was never finished
        (lambda rows: [rows[0], *rows[2:]], "acde"),  # the end of a call that others follow is taken out
        (lambda rows: sorted(rows, reverse=True), "edcba"),
        (lambda rows: rows[:-1], "abc!"),  # the end of the last call is taken out
    ],
)
def test_which_rows_of_a_file_that_a_person_edited_count(tmp_path, edit, expected):
    """ "!" stands for a problem that is named."""
    log = CorrectionLog(tmp_path / "corrections.csv")
    for bags in ("ab", "c", "de"):
        log.append([Correction(bag, 0, "wren", LABEL) for bag in bags])
    heading, *rows = log.path.read_text().splitlines()
    log.path.write_text("\n".join([heading, *edit(rows)]) + "\n")
    again = CorrectionLog(log.path)
    assert "".join(entry.bag for entry in again.in_force()) + "!" * bool(again.problems) == expected
    again.append([Correction("z", 0, "wren", LABEL)])
    found = CorrectionLog(log.path)
    assert ("".join(entry.bag for entry in found.in_force()), found.problems) == (expected.rstrip("!") + "z", [])


def test_a_file_of_an_earlier_version_counts_whole(tmp_path):
    """It has no column of ends; it gets one with the next call."""
    path = tmp_path / "corrections.csv"
    path.write_text("bag,instance,label,action,before,by,call,time\na,0,x,label,,,1,t\nb,0,x,label,,,1,t\n")
    log = CorrectionLog(path)
    log.append([Correction("c", 0, "x", LABEL)])
    assert [entry.bag for entry in CorrectionLog(path).in_force()] == ["a", "b", "c"]
    assert [row["end"] for row in csv.DictReader(io.StringIO(path.read_text()))] == ["", "yes", "yes"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links")
def test_the_table_is_not_reached_through_a_link(tmp_path, answered):
    elsewhere = tmp_path / "elsewhere" / "private"
    elsewhere.parent.mkdir()
    answered.path.rename(elsewhere)
    answered.path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with pytest.raises(FormatError, match="is a link, which is not followed"):
        CorrectionLog(answered.path)
    with pytest.raises(FormatError, match="is a link, which is not followed"):
        answered.append(A_CALL)
    elsewhere.rename(tmp_path / "gone")
    with pytest.raises(FormatError, match="is a link, which is not followed"):
        answered.append(A_CALL)
    assert os.listdir(elsewhere.parent) == []
    assert (tmp_path / "gone").read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "corrections.csv")
    with pytest.raises(FormatError, match="is no file"):
        CorrectionLog(tmp_path / "corrections.csv")


def test_rows_say_when_and_what_was_before(tmp_path):
    log = CorrectionLog(tmp_path / "corrections.csv")
    log.append([Correction("a.wav", 3, "wren", LABEL, before="robin", by="Ada")])
    log.append([Correction("=1+1", 0, "", NOISE, before="wren"), Correction("b", None, "owl", ABSENT)])
    rows = list(csv.DictReader(io.StringIO((tmp_path / "corrections.csv").read_text(encoding="utf-8"))))
    assert [row["before"] for row in rows] == ["robin", "wren", ""]
    assert rows[0]["by"] == "Ada"
    assert rows[0]["time"].endswith("+00:00")
    assert rows[1]["bag"] == "'=1+1"  # a spreadsheet must not run it
    assert [row["call"] for row in rows] == ["1", "2", "2"]
    assert said(CorrectionLog(tmp_path / "corrections.csv"))[1] == ("=1+1", 0, "", NOISE)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_row_that_was_never_finished_was_never_said(tmp_path, cut):
    path = tmp_path / "corrections.csv"
    log = CorrectionLog(path)
    log.append([Correction("a.wav", 0, "Zaunkönig", LABEL)])
    whole = path.read_bytes()
    log.append([Correction("bänke.wav", 1, "Specht", LABEL)])
    torn = path.read_bytes()[:-cut]
    assert len(torn) > len(whole)
    path.write_bytes(torn)
    again = CorrectionLog(path)
    assert said(again)[0] == ("a.wav", 0, "Zaunkönig", LABEL)
    assert len(said(again)) == 1 or said(again)[1] == ("bänke.wav", 1, "Specht", LABEL)  # only its time was cut
    again.append([Correction("c.wav", 2, "wren", LABEL)])
    assert said(CorrectionLog(path))[-1] == ("c.wav", 2, "wren", LABEL)
    assert said(CorrectionLog(path)) == said(again)
    aside = list(tmp_path.glob("corrections-unfinished-*.csv"))
    if len(said(again)) == 2:
        lost = torn[len(whole) :].rstrip(b"\0")
        assert [path.read_bytes() for path in aside] == [whole.split(b"\n")[0] + b"\n" + lost]


@pytest.mark.parametrize("tail", [b"", b"bank.wav,1,Sp", b'"b'])
def test_blocks_that_were_never_written_do_not_count(tmp_path, answered, tail):
    """What some file systems leave after the power went: the length of the new file, and zeros."""
    whole = answered.path.read_bytes()
    answered.path.write_bytes(whole + tail + bytes(70))
    again = CorrectionLog(answered.path)
    assert said(again) == [("a.wav", 0, "wren", LABEL)]
    assert "row 3 and what follows" in again.problems[0][1]
    again.set_aside()
    assert answered.path.read_bytes() == whole


def test_a_file_of_a_person(tmp_path):
    """Three columns, a byte-order mark, semicolons, no last line end, notes of their own."""
    path = tmp_path / "corrections.csv"
    path.write_bytes("\ufeffBag;instance;label;note\r\na b;0;wren;sure\r\nc;2;;".encode())
    log = CorrectionLog(path)
    assert said(log) == [("a b", 0, "wren", LABEL), ("c", 2, "", NOISE)]
    log.undo()
    log.append([Correction("c", 1, "wren", CONFIRMED)])
    assert said(CorrectionLog(path)) == [("a b", 0, "wren", LABEL), ("c", 1, "wren", CONFIRMED)]
    assert next(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))["note"] == "sure"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bag,label\na,b\n", "row 1: there is no column 'instance'"),
        ("bag,instance,label\na,1\n", "row 2: there are 2 cells but 3 columns"),
        ("bag,instance,label\na,one,wren\n", "row 2: the instance is 'one'; expected its number"),
        ("bag,instance,label,action\na,1,wren,burn\n", "row 2: the action is 'burn'; expected one of"),
        ("bag,instance,label,action\na,1,wren,absent\n", "row 2: the action is 'absent' and the instance '1'"),
        ("bag,instance,label,action\na,,wren,label\n", "row 2: the action is 'label' and the instance ''"),
        ("bag,instance,label,action\na,,,present\n", "row 2: there is no label"),
        ("bag,instance,label,call\na,1,wren,x\n", "row 2: the call is 'x'"),
        ("bag,instance,label,end\na,1,wren,no\n", "row 2: the end is 'no'; expected 'yes'"),
    ],
)
def test_rows_that_cannot_be_understood_are_named(tmp_path, text, message):
    path = tmp_path / "corrections.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        CorrectionLog(path)
    assert path.read_text() == text


def test_no_text_is_named(tmp_path):
    path = tmp_path / "corrections.csv"
    path.write_bytes(b"bag,instance,label\n\xff\xfe,0,wren\n")
    with pytest.raises(FormatError, match="row 2: it is not UTF-8"):
        CorrectionLog(path)


def test_what_is_outdated_does_not_count(tmp_path):
    log = CorrectionLog(tmp_path / "corrections.csv")
    log.append([Correction("a", 0, "wren", LABEL), Correction("b", 0, "wren", LABEL)])
    log.append([Correction("a", None, "", OUTDATED)])
    log.append([Correction("a", 1, "owl", LABEL), Correction("b", None, "owl", PRESENT)])
    assert [(entry.bag, entry.label) for entry in log.in_force()] == [("b", "wren"), ("a", "owl"), ("b", "owl")]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (("a", 0), r"A correction is \(bag, instance, label\)"),
        (("a", 0, 7), "The label of 'a' is 7; expected text"),
        (("a", 0, "x" * 10_000), r"of 10000 characters\) is too long"),
        (("a", 0, " wren"), "blanks around it"),
        (("a", 0, "wr\0en"), "cannot be shown"),
        (("a", None, ""), "no label was given"),
        (("a", 1.5, "wren"), "1.5 of 'a' is no whole number"),
        (("a", True, "wren"), "no whole number"),
        (("a", 3, "wren"), "has no instance 3; it has 3, from 0 to 2. Nothing was written"),
        (("a", -1, "wren"), "has no instance -1"),
        (("z", 0, "wren"), "The run has no bag 'z'; its bags are 'a'"),
    ],
)
def test_what_cannot_be_said(given_, message):
    with pytest.raises(InputError, match=message):
        check_correction(given_, {"a": 3})


def test_a_carriage_return_in_the_heading_is_refused_in_words(tmp_path):
    (tmp_path / "corrections.csv").write_bytes(b"bag,instance,label,be\rfore\na,0")
    with pytest.raises(FormatError, match=r"corrections\.csv"):
        CorrectionLog(tmp_path / "corrections.csv")
