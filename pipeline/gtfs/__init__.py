"""GTFS feed to timetable: one file per step."""
