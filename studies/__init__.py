"""Published experiments, played again: `python -m studies` runs them all and writes docs/results.md.

A study is a TOML file for `kernelbandits run`; a module beside it takes out the numbers to be shown (`collect`, plain
values) and puts them into words and tables (`render`). What was collected is kept in docs/results/results.json, and the
page is made of that file alone.
"""
