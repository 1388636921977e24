"""Cheating kernels, a file for each thing that they attack, and honest kernels that look odd."""
