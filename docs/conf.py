# SPDX-License-Identifier: Apache-2.0
"""The configuration of the documentation site."""

from opshift import __version__

project = "opshift"
author = "opshift contributors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_show_copyright = False
html_title = f"opshift {release.partition('+')[0]}"  # a commit does not fit in one line
html_static_path = ["_static"]
html_css_files = ["pages.css", "coverage.css", "first-page.css"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
napoleon_use_ivar = True  # attributes are described in the text of their class
autodoc_typehints = "description"
autodoc_member_order = "bysource"
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]
nitpicky = False
