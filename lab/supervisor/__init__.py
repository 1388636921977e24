"""The course of a run: fresh processes, one after another; whatever dies, what was measured stays."""
