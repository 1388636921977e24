"""A published site computed again from its own raw samples."""
