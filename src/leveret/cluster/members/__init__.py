"""Who belongs to a cluster: its authority, certificates, tokens and joining, and how nodes find each other."""
