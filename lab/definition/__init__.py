"""What an author writes, and what becomes of it before anything is measured: a registered plan."""
