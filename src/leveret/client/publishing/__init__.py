"""Publishing: producers, what they have not had confirmed, and the channels they share."""
