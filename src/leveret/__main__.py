"""`python -m leveret` is the same as `leveret`."""

from leveret.node.cli import main

main(prog_name="leveret")
