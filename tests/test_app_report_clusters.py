"""Rows, summary and page of a clustering."""

import json
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

from bagwise import M3IC, BagDataset, Bags
from bagwise.app.report.clusters import (
    cluster_rows,
    clusters_in_words,
    describe_clusters,
    summarize_clusters,
    write_cluster_page,
)
from bagwise.clustering.find import find_clusters
from bagwise.core.exceptions import InputError

NASTY = "<script>alert('x')</script>&\"bag"
VOID = {"meta", "circle", "line", "rect", "br"}


def make_dataset(n_features=3, sparse=False):
    rng = np.random.default_rng(0)
    truth = np.arange(24) % 2
    X = 0.2 * rng.normal(size=(48, n_features))
    X[::2, 0] += np.where(truth == 1, 4.0, -4.0)  # the first instance of every bag is its witness
    return BagDataset(
        bags=Bags(sp.csr_matrix(X) if sparse else X, np.arange(25) * 2),
        Y=np.eye(2, dtype=np.uint8)[truth],
        class_names=["left", NASTY],
        bag_names=[NASTY, *(f"bag {i}" for i in range(1, 24))],
        feature_names=[f"f{j}{NASTY}" for j in range(n_features)],
        locations={
            "file": [NASTY] * 48,
            "start": 0.123456 * np.arange(48),
            "polygon": [[[0, 0]] * 99] * 48,
        },
        name=NASTY,
    )


class Reader(HTMLParser):
    """Text, tags and attribute values; fails where tags do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags, self.values = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.values += [value or "" for _, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def found(dataset, k=2, **options):
    options = {"scaling": "none", "n_noise": 0, **options}
    return find_clusters(dataset.bags, M3IC(random_state=0), [k], **options)


def test_rows_say_what_the_model_found():
    dataset = make_dataset()
    result = found(dataset)
    rows, model = cluster_rows(dataset, result), result.model
    assert [row["bag"] for row in rows] == dataset.bag_names
    assert [row["cluster"] for row in rows] == model.labels_.tolist()
    assert [row["witness"] for row in rows] == [0] * 24
    assert [row["margin"] for row in rows] == pytest.approx(model.margins_, abs=1e-6)
    assert [row["plain_kmeans"] for row in rows] == result.baseline.labels.tolist()
    with pytest.raises(InputError, match="fitted on 24 bags and the dataset holds 3"):
        cluster_rows(dataset[:3], result)


@pytest.mark.parametrize("sparse", [False, True])
def test_summary(sparse):
    dataset = make_dataset(sparse=sparse)
    result = found(dataset)
    model, summary = result.model, summarize_clusters(dataset, result, "m3ic")
    assert [cluster["size"] for cluster in summary["clusters"]] == [12, 12]
    for cluster in summary["clusters"]:
        sure = [(round(row["stays"], 3), row["margin"]) for row in cluster["witnesses"]]
        assert sure == sorted(sure, reverse=True)
        assert len(sure) == 12
        first = cluster["features"][0]
        assert first["name"].startswith("f0")  # the feature that makes the clusters
        assert first["here"] * first["elsewhere"] < 0
        assert cluster["unclear"] == sum(result.halves.shares[model.labels_ == cluster["cluster"]] < 0.9)
    assert sorted(row["counts"] for row in summary["labels"]) == [[0, 12], [12, 0]]
    where = summary["clusters"][0]["witnesses"][0]["where"]
    assert where.startswith(f"file {NASTY}, start ")
    assert "polygon" not in where


def test_page_is_whole_and_escaped(tmp_path):
    dataset = make_dataset()
    write_cluster_page(summarize_clusters(dataset, found(dataset), "m3ic"), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    assert "script" not in reader.tags
    assert NASTY in "".join(reader.text)
    assert not any(value.startswith(("http", "//")) for value in reader.values)
    assert page.count('class="strip"') == 24
    assert 'id="cluster-1"' in page
    assert ">where<" in page


def test_page_of_data_with_nothing_but_bags(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 400))  # too many features for a strip
    X[:20, 0] += 50
    X[20:, 0] -= 50
    dataset = BagDataset(bags=Bags(X, np.arange(21) * 2))
    with pytest.warns(UserWarning, match="clusters hold a bag"):
        result = found(dataset, 4)
    summary = summarize_clusters(dataset, result, "m3ic")
    assert summary["labels"] is None
    assert summary["clusters"][-1]["size"] == 0
    assert summary["clusters"][-1]["features"] == []
    write_cluster_page(summary, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'class="strip"' not in page
    assert "Labels in the data" not in page
    assert ">where<" not in page
    assert 'id="cluster-3"' not in page


def test_missing_extra_is_named(tmp_path, monkeypatch):
    dataset = make_dataset()
    summary = summarize_clusters(dataset, found(dataset), "m3ic")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"bagwise\[report\].*--no-page"):
        write_cluster_page(summary, tmp_path / "page.html")


def test_what_was_done_is_plain_data_and_words():
    dataset = make_dataset()
    result = found(dataset, n_noise=19)
    about = describe_clusters(dataset, result)
    assert json.loads(json.dumps(about)) == about
    assert about["test"]["n_noise"] == 19
    assert about["accuracy"]["clusters"] == 1.0
    assert about["sweep"][0]["chosen"]
    text = clusters_in_words({"model": "m3ic", **about})
    assert "24 bags in 2 clusters: 12, 12 (m3ic, scaled by none)" in text
    assert "baseline plain-kmeans" in text
    assert about["verdict"] in text
    unlabelled = replace(dataset, Y=None, class_names=[], labelled=None)
    assert describe_clusters(unlabelled, result)["accuracy"] is None
    several = replace(dataset, Y=np.ones((24, 2), dtype=np.uint8))
    assert describe_clusters(several, result)["accuracy"] is None


def test_settings_are_chosen_for_each_number_and_the_number_by_noise():
    dataset = make_dataset()
    result = found(dataset, costs=[0.5, 4.0], balances=[0.1], n_noise=19)
    assert [(record["C"], record["n_clusters"]) for record in result.records] == [(0.5, 2), (4.0, 2)]
    chosen = max(result.records, key=lambda record: record["silhouette"])
    assert chosen["chosen"]
    assert chosen["stability"] is not None
    assert chosen["C"] == result.model.C
    again = M3IC(2, C=chosen["C"], n_init=1, random_state=chosen["seed"]).fit(dataset.bags)
    assert result.model.labels_.tolist() == again.labels_.tolist()
