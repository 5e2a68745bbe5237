"""What messages and dead letters come to: tables of figures, of clusters, and of alerts; and sending letters back."""
