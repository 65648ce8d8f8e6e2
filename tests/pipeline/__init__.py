"""The pipeline on planted logs. One Spark session serves a run."""
