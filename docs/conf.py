"""Sphinx's configuration.

The build needs no network. INTERSPHINX=1 adds links into the documentation of Celery and kombu.
"""

import os
from importlib.metadata import version as version_of

project = "celery-fair"
author = "The celery-fair contributors"
copyright = author  # noqa: A001 - the name is Sphinx's
version = release = version_of("celery-fair")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
if os.environ.get("INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "celery": ("https://docs.celeryq.dev/en/stable/", None),
    "kombu": ("https://docs.celeryq.dev/projects/kombu/en/stable/", None),
}

default_role = "code"  # docstrings write `name`
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = "celery-fair"
html_static_path = ["_static"]
html_css_files = ["message-way.css", "demo-picture.css"]
