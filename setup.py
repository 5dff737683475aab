"""pyproject.toml declares everything, except for two folders that are installed under other names.

`rules/` ships inside the package as `taso_py/_rules`, and `taso_py/_alias` is the package `superopt`.  setuptools
cannot express both an automatic package list and mapped directories in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["taso_py", "taso_py.*"], exclude=["taso_py._alias"]),
        "taso_py._rules",
        "superopt",
    ],
    package_dir={"taso_py._rules": "rules", "superopt": "taso_py/_alias"},
    package_data={
        "": ["py.typed", "*.lark", "*.jinja", "*.css"],
        "taso_py": ["schemas/*.json"],
        "taso_py._rules": ["*.rules", "*.lock", "*.md"],
    },
)
