"""The table of corrections: nothing that was answered is lost, whatever people and power cuts do to the file."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.exceptions import FormatError, InputError
from bagwise.workflow.corrections import (
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


@pytest.mark.parametrize("cut", range(1, 55))
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
