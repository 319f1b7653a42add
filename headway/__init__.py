"""Headway: earliest arrivals on public-transport timetables for very large query batches."""
