"""`leveretctl`: rabbitmqctl's verbs, for the scripts that people have. New ones are better written with `leveret`."""
