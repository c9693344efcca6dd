"""A release of the chart on one cluster. Its operator runs as a process, because no kubelet runs its pods.

The process has the arguments of the container and a token of the ServiceAccount of the release, and nothing else.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from support import free_port, repository
from support.ecosystem.helm import CHART, Helm
from support.ecosystem.kubectl import Kubectl
from support.threats import installation
from support.threats.operator import Operator

NAMESPACE = "hearth-system"
CRDS = tuple(sorted(path.stem for path in (repository.ROOT / "crds").glob("*.hearth.dev.yaml")))
NAMES = "custom-columns=:metadata.namespace,:metadata.name"


@dataclass(slots=True, kw_only=True)
class Release:
    helm: Helm
    kubeconfig: Path
    """The kubeconfig of the administrator."""
    folder: Path
    """The folder for the log and the operator's kubeconfig."""
    webhook_port: int = field(default_factory=free_port.find_free_port)
    operator: Operator | None = None
    root: Path = Path("/")
    """The root of the file system that the operator sees."""
    program: tuple[str, ...] = (sys.executable, "-m", "hearth")

    @property
    def kubectl(self) -> Kubectl:
        """The administrator's kubectl, in the namespace of the release."""
        return Kubectl(kubeconfig=self.kubeconfig, namespace=NAMESPACE)

    def install(self, *arguments: str) -> str:
        """Install it, and wait until Helm finds it ready."""
        return self._deploy("install", "--create-namespace", *arguments)

    def upgrade(self, *arguments: str) -> str:
        """Upgrade it with further values."""
        return self._deploy("upgrade", "--reset-then-reuse-values", *arguments)

    def uninstall(self) -> str:
        self.stop()
        return self.helm.call("uninstall", "hearth", f"--namespace={NAMESPACE}", "--wait", "--timeout=2m")

    def start(self, *flags: str) -> Operator:
        """Start its operator and wait until it is ready. flags: values that a Pod would derive from its name."""
        self.stop()
        self.operator = self.start_beside(*flags)
        return self.operator

    def start_beside(self, *flags: str) -> Operator:
        """Start another operator; the caller stops it."""
        path = self._write_kubeconfig()
        made = Operator(
            checkout=repository.ROOT,
            kubeconfig=Path("/", path.relative_to(self.root)),
            log_file=self.folder / f"operator-{len(list(self.folder.glob('operator*')))}.log",
            options=(*self.find_arguments(), *flags),
            program=self.program,
        )
        made.start()
        return made

    def stop(self) -> None:
        """Stop the process gracefully."""
        if self.operator is not None and self.operator.is_alive:
            assert self.operator.stop() == 0, self.operator.read_log()[-3000:]
        self.operator = None

    def let_webhook_be_called(self) -> None:
        """Set the URL of the webhook on this machine, as documented for an operator outside of the cluster.

        An upgrade of the release would then be refused, since the operator owns the URL.
        """
        assert self.operator is not None
        url = {"url": f"https://127.0.0.1:{self.webhook_port}/"}
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            (found,) = self.kubectl.get(kind, "hearth-webhook")
            numbers = range(len(found["webhooks"]))
            path = "/webhooks/{}/clientConfig"
            patch = [{"op": "replace", "path": path.format(number), "value": url} for number in numbers]
            self.kubectl.call("patch", kind, "hearth-webhook", "--type=json", f"-p={json.dumps(patch)}")
        # The operator sets the path and the certificate when it starts, and once a minute.
        self.start()

    def find_arguments(self) -> list[str]:
        """The flags of the container, except that the webhook listens on an address of this machine."""
        (workload,) = self.kubectl.get("deployment,statefulset", "-l=app.kubernetes.io/instance=hearth")
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        command, *flags = container["args"]
        assert command == "run"
        return [*flags, f"--webhook-address=127.0.0.1:{self.webhook_port}"]

    def _write_kubeconfig(self) -> Path:
        """Write a kubeconfig with a token of the ServiceAccount that refers to no other files."""
        folder = self.folder if self.root == Path("/") else self.root / "tmp"
        api = installation.connect(self.kubeconfig)
        path = installation.write_operator_kubeconfig(api, self.kubeconfig, folder / "kubeconfig")
        content = json.loads(path.read_text())
        cluster = content["clusters"][0]["cluster"]
        authority = Path(cluster.pop("certificate-authority")).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
        path.write_text(json.dumps(content))
        path.chmod(0o644)
        return path

    def _deploy(self, command: str, *arguments: str) -> str:
        given = [command, "hearth", str(CHART), f"--namespace={NAMESPACE}", "--wait", "--timeout=2m"]
        # The API server cannot reach Services here; see `let_webhook_be_called`.
        given.append("--set=webhook.timeoutSeconds=1")
        return self.helm.call(*given, *arguments)

    def clear(self) -> None:
        """Remove all leftovers of a test, whether or not it succeeded."""
        if self.operator is not None:
            self.operator.kill()
        self.helm.run("uninstall", "hearth", f"--namespace={NAMESPACE}", "--wait", "--timeout=1m")
        for kind in ("stacks", "resourcegroups", "stacksnapshots"):
            for each in self.kubectl.run("get", kind, "-A", "--no-headers", "-o", NAMES).stdout.splitlines():
                namespace, name = each.split()
                patch = '{"metadata":{"finalizers":null}}'
                self.kubectl.run("patch", kind, name, f"-n={namespace}", "--type=merge", f"-p={patch}")
        self.kubectl.run("delete", "crd", *CRDS, "--ignore-not-found")
        self.kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found")
