"""How kopf is set up, and why so. Knows kopf's settings alone."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import kopf

from hearth.model import names, value_class

if TYPE_CHECKING:
    from hearth.kube.webhook.webhook_server import WebhookServer

FIRST_PAUSES = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0)
LONGEST_PAUSE = 30.0
SERVER_TIMEOUT = 300
"""Seconds that a stream is asked to last: some load balancers forget idle ones, silently, after four minutes or so.
A whole number: it goes to the server as it is, which refuses any other."""
CLIENT_TIMEOUT = 330.0
CONNECT_TIMEOUT = 10.0
REQUEST_TIMEOUT = 30.0
EXIT_TIMEOUT = 1.0
"""Seconds; all that our handlers do takes microseconds."""


@value_class.dataclass(frozen=True, slots=True)
class EndlessBackoff:
    """Pauses in seconds between attempts, without an end; each loop over them starts again.

    kopf's own list ends after 54 seconds, and then so does kopf.
    """

    uniform: Callable[[float, float], float] = random.uniform

    def __iter__(self) -> Iterator[float]:
        for pause in FIRST_PAUSES:
            yield pause * self.uniform(0.7, 1.3)
        while True:
            yield self.uniform(LONGEST_PAUSE / 2, LONGEST_PAUSE)


def make_settings(server: WebhookServer | None = None) -> kopf.OperatorSettings:
    """Make the settings of kopf. server: of admission reviews; None: there is none."""
    settings = kopf.OperatorSettings()
    # It would send SIGKILL to the whole process, ten minutes after an exit from which the supervisor has recovered.
    settings.process.ultimate_exiting_timeout = None
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.posting.level = logging.ERROR
    settings.networking.error_backoffs = EndlessBackoff()
    settings.networking.request_timeout = REQUEST_TIMEOUT
    settings.networking.connect_timeout = CONNECT_TIMEOUT
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.client_timeout = CLIENT_TIMEOUT
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.queueing.exit_timeout = EXIT_TIMEOUT
    # Our own kinds are known; what children need is discovered by the engine's side. Reviews are of kinds that may be
    # installed later, so kopf then follows the definitions itself.
    settings.scanning.disabled = server is None
    # The webhook configurations are installed with the rights of an administrator, and kept up to date by our own code:
    # kopf would empty them at each exit.
    settings.admission.managed = None
    settings.admission.server = cast("Any", server)  # kopf's protocol uses its own types of messages
    # None of our handlers makes kopf write; if one ever does, the manager is visible.
    settings.persistence.finalizer = f"kopf.{names.GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{names.GROUP}", v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"kopf.{names.GROUP}")
    return settings
