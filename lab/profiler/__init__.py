"""After timing: Nsight Compute's counters and other instruments, each in a process of its own."""
