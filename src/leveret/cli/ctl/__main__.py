"""`python -m leveret.cli.ctl` is the same as `leveretctl`."""

from leveret.cli.ctl.main import main

main()
