"""The tests. A package so that suites can import what they share; the folders below need no __init__.py."""
