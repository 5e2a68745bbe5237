"""The data pipeline: jobs that make tables of what flows through the broker, and send back what people find in them."""
