"""The connector for Spark under load."""
