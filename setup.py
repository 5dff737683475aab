"""pyproject.toml declares everything, except that `rules/` ships inside the package as `taso_py/_rules`.

setuptools cannot express both an automatic package list and one mapped directory in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["taso_py", "taso_py.*"]), "taso_py._rules"],
    package_dir={"taso_py._rules": "rules"},
    package_data={
        "": ["py.typed", "*.lark"],
        "taso_py": ["schemas/*.json"],
        "taso_py._rules": ["*.rules", "*.lock", "*.md"],
    },
)
