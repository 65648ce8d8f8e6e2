"""``python -m celery_fair <command>``: the commands, for those that need no app."""

from celery_fair.cli import fair

if __name__ == "__main__":
    fair(prog_name="python -m celery_fair")
