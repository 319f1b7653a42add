"""Profiles a user picks with `--profile`."""
