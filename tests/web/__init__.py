"""`celery -A app fair web`: in this process, and in a browser on real workers."""
