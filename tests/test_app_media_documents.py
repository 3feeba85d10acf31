"""Documents as they come: encodings found out, pages and office files as the words that they show."""

import codecs
import html
import subprocess
import sys
import zipfile
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bagwise.app.media.documents import decode, read_words
from bagwise.core.exceptions import FormatError, MemoryLimitError
from bagwise.io.markup import html_text, rst_text

LETTERS = "äöüßéèñçÄÖÜ "
WESTERN = st.text(st.sampled_from("abcdefgh " + LETTERS), min_size=8).filter(
    lambda text: any(ord(c) > 127 for c in text) and text.isascii() is False and " " in text
)


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1))
def test_utf8_is_utf8(text):
    found = decode(text.encode(), "a.txt")
    assert (found.text, found.read_as) == (text.removeprefix("\ufeff"), "UTF-8")
    marked = decode(codecs.BOM_UTF8 + text.encode(), "a.txt")
    assert (marked.text, marked.read_as) == (text, "UTF-8")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=4).filter(lambda t: not t.isspace()))
def test_utf16_is_found_by_its_mark_and_utf32_too(text):
    for name in ("utf-16", "utf-32"):
        found = decode(text.encode(name), "a.txt")
        assert (found.text, found.read_as) == (text, name.upper())


@given(st.text(st.sampled_from("abcdefgh ,.ABC\n" + LETTERS), min_size=12))
def test_utf16_without_a_mark_is_found_by_its_nulls(text):
    for name in ("utf-16-le", "utf-16-be"):
        found = decode(text.encode(name), "a.txt")
        assert (found.text, found.read_as) == (text, "UTF-16")


@pytest.mark.parametrize(
    ("text", "encoding", "read_as"),
    [
        ("Ärger im Dorf über den Käse", "latin-1", "Latin-1"),
        ("déjà vu, garçon à côté", "latin-1", "Latin-1"),
        ("\u201cquoted\u201d \u2013 and 5 \u20ac", "cp1252", "Windows-1252"),
    ],
)
def test_western_bytes_are_read_as_such(text, encoding, read_as):
    found = decode(text.encode(encoding), "a.txt")
    assert (found.text, found.read_as) == (text, read_as)


def test_what_is_no_text_or_damaged_is_named():
    with pytest.raises(FormatError, match=r"a.txt, row 2: there is a null character, so this is no text file"):
        decode(b"one\ntwo\0three and four, five", "a.txt")
    with pytest.raises(FormatError, match="row 1: there is the byte 0x01"):
        decode(b"\x01\x02 abc", "a.txt")
    with pytest.raises(FormatError, match=r"row 2: the byte 0xff is not UTF-8 text; save the file as UTF-8"):
        decode("Käse, Öl\nÄhren".encode() + b"\xff", "a.txt")
    with pytest.raises(FormatError, match="is not UTF-16 text"):
        decode("abc".encode("utf-16") + b"a", "a.txt")


PAGE = """<!DOCTYPE html><html><head><title>The T&amp;itle</title><style>p {color: red}</style>
<script>var hidden = "<p>no</p>";</script></head><body><h1>Head<b>ing</b></h1><p>One
 two&nbsp;<em>th</em>ree &lt;tag&gt;<br>four<p>five<noscript>nothing</noscript>
<ul><li>six<li>seven</ul><!-- no --></body></html>"""


def test_pages_are_the_words_that_they_show(tmp_path):
    lines = ["The T&itle", "Heading", "One", "two three <tag>", "four", "five", "six", "seven"]
    assert html_text(PAGE).split("\n") == lines
    (tmp_path / "a.html").write_bytes(PAGE.encode())
    assert read_words(tmp_path / "a.html").read_as == "HTML (UTF-8)"
    told = '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2"><p>Łódź</p>'
    (tmp_path / "b.htm").write_bytes(told.encode("iso-8859-2"))
    found = read_words(tmp_path / "b.htm")
    assert (found.text, found.read_as) == ("Łódź", "HTML (ISO-8859-2)")
    (tmp_path / "c.html").write_bytes('<meta charset="utf-8"><p>Käse</p>'.encode("latin-1"))  # tells it wrongly
    assert read_words(tmp_path / "c.html").text == "Käse"
    (tmp_path / "d.html").write_text("<script>only()</script>")
    with pytest.raises(FormatError, match="d.html is empty: it holds nothing but blanks"):
        read_words(tmp_path / "d.html")


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<p>more</p><![<!--CDATA[table><p>x", ["more", "x"]),  # an assertion of Python's parser failed
        ("<!DOCTYPE html><title>T</title><p>hello", ["T", "hello"]),  # the tags of the head may be left out
        ("<head><meta charset=u><title>T</title><style>p</style><body>hello", ["T", "hello"]),
        ("<p>a<svg><title>icon</title><path d='M0'/></svg><p>b", ["a", "b"]),
        ("<svg></style><style></svg>a</svg><p>b", ["a", "b"]),
        ("a<!-- b <p>c", ["a"]),
        ("a<!-->b<!--->c<!-- d --!>e", ["abce"]),
        ("1 < 2 &lt; 3 <4 &amp; <b", ["1 < 2 < 3 <4 &"]),
        ("<a title='x>y' b = \"z>\" c=d/>q</a>", ["q"]),
        ("<SCRIPT>if (a<b) '</p>'</Script >z<style>p", ["z"]),
        ("<script src='a' />x", ["x"]),
        ("<title>1 <b> 2</title>3<textarea><i></textarea>4", ["1 <b> 2", "3", "<i>", "4"]),
        ("a&#" + "1" * 9999 + ";b&#x" + "f" * 9999 + "c&#00000065;", ["a\ufffdb\ufffdA"]),
        ("a<?php echo '<p>' ?>b</ >c</>d", ["a' ?>bcd"]),
    ],
)  # fmt: skip
def test_pages_as_browsers_take_them(page, lines):
    assert html_text(page).split("\n") == lines


WORDS = st.text(st.characters(categories=("L", "N", "Sm", "Po")), min_size=1, max_size=6).map(str.strip).filter(bool)
ATTRIBUTES = st.sampled_from(["", " a", " a=b", ' a="b > c"', " a = 'd < \"e\"' /", "\n\tx y=1\n"])
HIDDEN = st.sampled_from(["<!-- <p>no -->", "<script>no < no</script>", "<style>no</style>", "<noscript>no</noscript>"])


@given(st.lists(st.tuples(WORDS, st.sampled_from(["b", "p", "h1", "li"]), ATTRIBUTES, HIDDEN, st.booleans())))
def test_any_page_shows_its_words_and_no_others(parts):
    page, lines = "<html><body>", [""]
    for word, tag, attributes, hidden, escaped in parts:
        written = "".join(f"&#{ord(letter)};" for letter in word) if escaped else html.escape(word)
        page += f"<{tag}{attributes}>{written}</{tag}>"
        if tag == "b" and hidden.startswith("<!"):
            page += hidden
            lines[-1] += word
        else:
            page += hidden
            lines[-1] += word if tag == "b" else ""
            lines += [word] if tag != "b" else []
            lines.append("")
    assert html_text(page) == "\n".join(filter(None, lines))


OPEN = ["<!--", "<!-- -- ", "<a ", "<a b=", "<a b='", '<a "', "<a/", "<a\n<", "<a b=c", "<title", "</", "<?", "<![",
        "&#x", "<svg>", "<script></", "<p>x"]  # fmt: skip
RST = [("", "=", "x"), ("", ":a", ":`"), (":", "a:", "`"), ("`", " ", ""), ("`a", " ", "<"), (":a:`", " ", "<"),
       (".. ", "a:", ""), ("`", "\n", ""), ("", "`a <b", "")]  # fmt: skip


def test_no_text_takes_long():
    """What is left open, half a million letters of each kind: this took minutes each. The limit is one of hangs."""
    resource = pytest.importorskip("resource")
    work = (
        "from bagwise.io.markup import html_text, rst_text\n"
        f"for unit in {OPEN!r}: html_text(unit * (500_000 // len(unit)))\n"
        "html_text('<svg>' * 50_000 + '</style>' * 50_000)\n"
        f"for before, unit, after in {RST!r}: rst_text(before + unit * (500_000 // len(unit)) + after)\n"
        "print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", work], capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_restructured_text_loses_its_marks(tmp_path):
    source = """=====
Title
=====

.. _target: https://example.org
.. note::
   :class: wide

   See :class:`~numpy.ndarray` and :ref:`this part <there>`, ``code`` or `a link <https://x.org>`_.

.. image:: picture.png
"""
    found = rst_text(source)
    assert "Title" in found
    assert "See numpy.ndarray and this part, code or a link." in found
    for mark in ("===", "note", "image", "https", "wide", "`"):
        assert mark not in found
    (tmp_path / "a.rst").write_text(source)
    assert read_words(tmp_path / "a.rst").read_as == "RST (UTF-8)"


def write_pdf(path, pages):
    """A PDF made by hand: the least that a reader takes, a line a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for i, line in enumerate(pages):
        content = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET" if line else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    text, places = "%PDF-1.4\n", []
    for i, body in enumerate(objects, 1):
        places.append(len(text))
        text += f"{i} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    text += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    text += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{text.index('xref')}\n%%EOF\n"
    path.write_bytes(text.encode("latin-1"))


def test_pdf_pages_are_read_in_order(tmp_path, monkeypatch):
    pypdf = pytest.importorskip("pypdf")
    write_pdf(tmp_path / "a.pdf", ["The first page", "The second page"])
    found = read_words(tmp_path / "a.pdf")
    assert (found.text.split(), found.read_as) == (["The", "first", "page", "The", "second", "page"], "PDF")
    write_pdf(tmp_path / "scanned.pdf", [""])
    with pytest.raises(FormatError, match=r"scanned.pdf is empty.*\(OCR\) first"):
        read_words(tmp_path / "scanned.pdf")
    (tmp_path / "torn.pdf").write_bytes((tmp_path / "a.pdf").read_bytes()[:60])
    with pytest.raises(FormatError, match="torn.pdf: the PDF cannot be read"):
        read_words(tmp_path / "torn.pdf")
    writer = pypdf.PdfWriter(clone_from=tmp_path / "a.pdf")
    writer.encrypt("secret", algorithm="RC4-128")
    with (tmp_path / "locked.pdf").open("wb") as file:
        writer.write(file)
    with pytest.raises(FormatError, match="locked.pdf: the PDF is locked by a password"):
        read_words(tmp_path / "locked.pdf")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(FormatError, match=r"reading PDF needs pypdf; pip install 'bagwise\[text\]'"):
        read_words(tmp_path / "a.pdf")


def test_office_documents_are_read_with_their_tables(tmp_path, monkeypatch):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("The heading", 1)
    document.add_paragraph("A paragraph with Käse.")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    document.add_paragraph("The end.")
    document.save(tmp_path / "a.docx")
    found = read_words(tmp_path / "a.docx")
    assert found.text == "The heading\nA paragraph with Käse.\nleft\tright\nThe end."
    assert found.read_as == "docx"
    (tmp_path / "b.docx").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(FormatError, match="b.docx: the document cannot be read"):
        read_words(tmp_path / "b.docx")
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 2_000_000)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000000")
    with pytest.raises(MemoryLimitError, match="bomb.docx read as text"):
        read_words(tmp_path / "bomb.docx")
    monkeypatch.delenv("BAGWISE_MEMORY_LIMIT")
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(FormatError, match=r"reading docx needs python-docx; pip install 'bagwise\[text\]'"):
        read_words(tmp_path / "a.docx")


def test_merged_cells_are_read_once_however_wide_they_claim_to_be(tmp_path):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    table = document.add_table(rows=3, cols=3)
    for i in range(9):
        table.cell(i // 3, i % 3).text = str(i)
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(0, 2).merge(table.cell(2, 2))
    document.save(tmp_path / "a.docx")
    assert read_words(tmp_path / "a.docx").text == "0\n1\t2\n5\n8\n3\t4\t\n6\t7\t"
    width = table.cell(0, 0)._tc
    width.grid_span = 10**9
    document.save(tmp_path / "b.docx")
    assert read_words(tmp_path / "b.docx").text == read_words(tmp_path / "a.docx").text
    for _ in range(2000):  # deeper than Python goes
        table._tbl.append(deepcopy(table._tbl.tr_lst[-1]))
    document.save(tmp_path / "c.docx")
    assert read_words(tmp_path / "c.docx").text.count("6\t7") == 2001


def test_a_pdf_has_so_much_time(tmp_path, monkeypatch):
    pytest.importorskip("pypdf")
    write_pdf(tmp_path / "a.pdf", ["The first page"])
    monkeypatch.setattr("bagwise.app.media.documents.SECONDS_PER_PDF", -1.0)
    with pytest.raises(FormatError, match=r"a.pdf: the PDF is not read after .* s, which no text of its size takes"):
        read_words(tmp_path / "a.pdf")
