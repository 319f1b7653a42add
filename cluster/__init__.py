"""Where work runs; knows nothing of transit."""
