"""Runs the sweeps of a plan, each in a fresh process. What was measured survives a crash."""
