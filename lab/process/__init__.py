"""Child processes: how one is started, heard and ended, and how it ends with its parent."""
