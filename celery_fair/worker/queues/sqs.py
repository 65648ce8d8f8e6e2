"""A feed from Amazon's SQS, which is subscribed to and asked.

The subscription, kombu's, waits at SQS for as long as ``wait_time_seconds`` says, without standing
in anybody's way, and brings what comes to a queue that was empty; when it has no room it rests for
a ``polling_interval``. That is too long for a queue with a backlog, to have what its turn takes.
Such a queue is asked: for as many messages as there is room for, at most ten at a time, and SQS is
not to wait for more. The worker does wait for the answer, some milliseconds. When it is empty, the
queue counts as empty until the subscription has filled its window again: each question costs money.

Messages are in no order, but of FIFO queues.
"""

import logging

from botocore.exceptions import ClientError
from kombu.asynchronous.aws.sqs.message import AsyncMessage

from celery_fair.worker.queues.pulled import Pulled
from celery_fair.worker.queues.virtual import VirtualFeed, VirtualSource

logger = logging.getLogger(__name__)

_MOST = 10  # SQS's bound
_COUNT = {"AttributeNames": ["ApproximateReceiveCount"]}


class SqsFeed(VirtualFeed):
    """A queue of SQS, on a worker with an event loop."""

    def refill(self) -> None:
        while self._consumes and self.window.backlogged:
            free = self.room.free(len(self.buffer))
            if free <= 0:
                return
            if not self._ask(min(free, _MOST)):
                self.window.disappointed()

    def _ask(self, most: int) -> int:
        """Take so many messages, if they are there; return how many there were."""
        channel = self.channel
        queue = channel.canonical_queue_name(self.name)
        names = getattr(channel, "get_message_attributes", _COUNT)  # kombu before 5.6 has none
        try:
            answer = channel.sqs(queue=queue).receive_message(
                QueueUrl=channel._new_queue(self.name),
                MaxNumberOfMessages=most,
                WaitTimeSeconds=0,
                **{name: value for name, value in names.items() if value},
            )
        except ClientError as exc:  # of this queue; it is the subscription that notices its end
            logger.warning("Queue %s could not be asked for messages: %s", self.name, exc)
            return 0
        messages = answer.get("Messages", [])
        for message in messages:
            message["Body"] = AsyncMessage(body=message["Body"]).decode()
        for payload in channel._messages_to_python(messages, self.name):
            found = channel.message_to_python(payload)
            channel.qos.append(found, found.delivery_tag)
            self.window.delivered(0.0)
            self._receive(found)
        return len(messages)


class PulledSqsFeed(Pulled, SqsFeed):
    """A queue of SQS that is asked for each message."""

    def _get(self) -> int:
        return self._ask(1)  # how many are left, SQS knows by and large only, and for another call


class SqsSource(VirtualSource):
    """Amazon's SQS, with an event loop."""

    _kind, _pulled_kind = SqsFeed, PulledSqsFeed
