"""The site that `make docs` builds: guide, API, gallery. Pages stay where they are, and so do their links."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import _MockModule

from bagwise import __version__

project = "bagwise"
author = "the bagwise developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "formats/examples", "gallery"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "ignore_pattern": r"in_torch",  # which is gigabytes; docs/networks.md shows it
    "abort_on_example_error": True,
    "download_all_examples": False,
    "plot_gallery": True,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,  # how long they took on one machine is of no use to a reader
    "show_signature": False,
    "first_notebook_cell": '%pip install "bagwise[all]"',  # so that a downloaded notebook runs in Colab too
}

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc tells the types in words
autodoc_mock_imports = ["torch"]  # which is gigabytes
_MockModule.inf = float("inf")  # torch.inf, which modules compute with as they are read
numpydoc_show_class_members = False  # the template of a class lists them
numpydoc_xref_param_type = False
add_module_names = False
toc_object_entries_show_parents = "hide"
highlight_language = "none"  # what is indented is as often a formula or a command; examples with >>> are known as such
default_role = "obj"  # a link where the name is known, else as it stands

html_theme = "pydata_sphinx_theme"
html_title = f"bagwise {version}"
html_static_path = ["_static"]
html_css_files = ["bagwise.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "bagwise"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
copybutton_exclude = ".linenos, .gp, .go"

# A folder is no page of the site.
_TURNED = {
    "[examples](examples)": "`docs/formats/examples`",
    "[formats/examples](formats/examples)": "`docs/formats/examples`",
    "```floors": "```text",
}


def _turn_links(app: Sphinx, page: str, source: list[str]) -> None:
    for there, here in _TURNED.items():
        source[0] = source[0].replace(there, here)


def _skip_foreign(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Of what is inherited only bagwise's own; scikit-learn documents get_params and its like."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    module = getattr(thing, "__module__", None) or getattr(getattr(thing, "fget", None), "__module__", None)
    return True if module is not None and not module.startswith("bagwise") else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _turn_links)
    app.connect("autodoc-skip-member", _skip_foreign)
    return {"parallel_read_safe": True}
