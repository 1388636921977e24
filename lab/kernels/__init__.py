"""One file for each operator: kernels, entry point, float64 reference, inputs and traffic model."""
