"""Cheats by what they attack, and the honest oddities beside them."""
