"""A GPU box that is reached by ssh: the tree goes there, the run comes back."""
