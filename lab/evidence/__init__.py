"""What a run leaves behind, where it was measured, and by which code."""
