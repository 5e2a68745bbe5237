"""The only assembler: settings, boot, life and end of one node, and the command line."""
