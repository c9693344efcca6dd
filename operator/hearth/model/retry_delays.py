"""Delays before the operator repeats a failed request to an API server.

This is the only module with these figures, each with its reason. `docs/architecture.md` shows them as a table.
"""

from __future__ import annotations

from typing import Final

from hearth.model import growing_delay, value_class

LONGEST_OBEYED_PAUSE: Final = 60.0
"""Maximum Retry-After in seconds for watches and lookups: a longer pause would leave the cache without changes, or users
without an answer.
"""


@value_class.dataclass(frozen=True, slots=True)
class RetryDelay:
    """The delays before one request is repeated. Each consecutive failure doubles them."""

    request: str
    """The request as a verb phrase, for the log and the documentation."""
    first: float
    """Seconds after the first failure."""
    longest: float

    def find_seconds(self, failures: float = 1, *, retry_after: float | None = None) -> float:
        """Return the delay in seconds after consecutive failures. retry_after: the minimum that the server requested."""
        return max(growing_delay.find(failures, first=self.first, longest=self.longest), retry_after or 0.0)


DENIED_KIND = RetryDelay("find out whether objects of a denied kind exist", 2.0, 2.0)
"""The Stack reports its state only after the answer."""
KIND_REMOVAL = RetryDelay("find out whether a kind is being removed", 2.0, 2.0)
"""Members of a collection are deleted only after the answer."""
FINISHED_RELEASE = RetryDelay("release a finished object", 1.0, 300.0)
"""The deletion of the object waits, but a webhook may reject the change for a long time."""
FINISHED_RECORD = RetryDelay("record finished work on a revision", 300.0, 300.0)
"""Only a restore from a backup needs the record, and it contains all finished work of the Stack."""
LEFT_PODS = RetryDelay("read the Pods of a deleted StatefulSet", 2.0, 600.0)
"""The account of the Stack may never be allowed to read them."""
CLAIMS = RetryDelay("read the claims of StatefulSets", 10.0, 10.0)
"""A restore keeps all workloads suspended until the answer."""
CHECK = RetryDelay("list the objects of a Stack for a check", 2.0, 60.0)
"""A user waits for the result, but the lists of large Stacks are expensive."""
STACK_DELETION = RetryDelay("finish the deletion of a Stack", 2.0, 2.0)
"""Users and namespaces wait for the deletion."""
STATUS = RetryDelay("write the status of a Stack", 2.0, 2.0)
"""A replica of the API server usually restarts within seconds, and users read the status."""
DEFINITION = RetryDelay("read or store a definition", 2.0, 2.0)
"""A replica of the API server usually restarts within seconds, and the new definition waits."""
SNAPSHOT = RetryDelay("read a StackSnapshot to restore", 10.0, 10.0)
"""Changes of the StackSnapshot are noticed at once."""
AWAY_CLUSTER = RetryDelay("use another cluster that is away", 60.0, 60.0)
"""The Stack retries at once when the cluster is back."""
FULL_CLUSTERS = RetryDelay("use another cluster beyond the limit", 30.0, 30.0)
"""Another Stack must release its cluster first."""
EXPIRY = RetryDelay("delete an expired Stack", 60.0, 60.0)
"""A webhook rejects the deletion, and only a person can change that."""
READ_RIGHTS = RetryDelay("find out what an account may read", 2.0, 2.0)
"""Until then, no value of the objects is used or shown."""
HEALTH_RULES = RetryDelay("read the ConfigMap of health rules", 30.0, 30.0)
"""The previous rules apply until then, and changes are noticed at once."""
HEALTH_MARK = RetryDelay("write a HealthMark or its object", 2.0, 2.0)
"""A replica of the API server usually restarts within seconds."""
MARK_TARGET = RetryDelay("find the object of a HealthMark", 5.0, 300.0)
"""A safeguard: a reconcile that observes the object enqueues the mark."""
NEW_KIND = RetryDelay("find the new kind of a StackDefinition", 0.5, 0.5)
"""The API server serves a new kind within a second."""
STACK_DEFINITION = RetryDelay("reconcile a StackDefinition", 5.0, 5.0)
"""Its instances keep working in the meantime."""
DEFINITION_RIGHTS = RetryDelay("write the kind or roles of a StackDefinition without a permission", 30.0, 30.0)
"""An administrator must grant the permission or free the name."""
STEP = RetryDelay("execute a step", 1.0, 300.0)
"""Many errors resolve within a second: a webhook restarts, quota becomes available; `retry.maxBackoff` replaces the
longest delay."""
FAILED_RUN = RetryDelay("rerun failed work", 30.0, 300.0)
"""The failed run may have had side effects, and until then its object and log can be inspected."""
PLAN = RetryDelay("plan a change that needs an approval", 60.0, 60.0)
"""A preview of many objects is expensive, and a person waits anyway."""
PLANS = RetryDelay("find the StackPlans after the start", 2.0, 2.0)
"""The first list usually takes less than a second, and nothing is sent."""
START = RetryDelay("connect to the API server at the start", 2.0, 2.0)
"""The operator does nothing before."""
NOTIFICATION = RetryDelay("send a notification", 1.0, 60.0)
"""A restarted receiver is back within seconds, and nothing else waits for the answer."""
WATCH = RetryDelay("watch a kind", 0.1, 30.0)
"""A restarted API server is back within a few seconds, and one request per 0.1 s is harmless."""
SCHEMA = RetryDelay("read the schema of a kind", 10.0, 10.0)
"""A broken aggregated API rarely recovers quickly."""
REMOTE_CLUSTER = RetryDelay("reach another cluster", 0.5, 10.0)
"""All its Stacks wait, and one small request per 10 s is harmless."""
