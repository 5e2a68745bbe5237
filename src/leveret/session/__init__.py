"""One connection's life: from the protocol header to the close, and the control methods in between."""
