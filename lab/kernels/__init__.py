"""One file per operator: kernels, entry point, float64 reference, inputs and traffic model, side by side."""
