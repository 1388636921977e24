"""What each command of `lab` does, a file for each group of commands."""
