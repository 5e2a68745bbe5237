"""What operators do with a running broker: browse, lease, pause, tap, trace, replay, measure."""
