"""A run on several GPUs: which of them measures what, and how they are reached. The one journal is kept here."""
