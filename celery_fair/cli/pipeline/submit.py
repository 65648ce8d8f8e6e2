"""For spark-submit, which wants a file: ``spark-submit [options] submit.py audit warehouse``.

``python -m celery_fair pipeline doctor`` prints its path.
"""

from celery_fair.cli.pipeline.group import pipeline

if __name__ == "__main__":
    pipeline(prog_name="spark-submit submit.py")
