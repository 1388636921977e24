"""Checks the figures of a publication against the hardware and against each other."""
