"""Several nodes as one broker. Under construction: so far there is the consensus that the rest will stand on."""
