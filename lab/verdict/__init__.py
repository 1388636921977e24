"""Evidence → numbers with their uncertainty → verdicts. Pure: no GPU, no clock, no network."""
