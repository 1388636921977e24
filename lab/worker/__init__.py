"""What happens in a measuring process: check, time, report."""
