"""Published experiments, played again: `python -m studies` runs them all and writes docs/results.md.

A study is a TOML file for `kernelbandits run`; a module beside it takes out the numbers to be shown (`collect`, plain
values) and puts them into words, tables (`render`) and a figure (`drawing`). What was collected is kept in
docs/results/results.json, and the page and its figures are made of that file alone.
"""
