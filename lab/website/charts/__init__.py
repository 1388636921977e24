"""Pictures of results. The only rooms that import plotly."""
