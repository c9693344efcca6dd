"""Writes the files that the programs of a node read at startup: certificates, kubeconfigs, settings."""

from __future__ import annotations

import base64
import dataclasses
import ipaddress
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NODE = "node0"
ADDRESS = "10.245.0.1"
"""Address of the node, on a bridge in its network namespace."""
SERVICES, SERVICES_FIRST = "10.96.0.0/16", "10.96.0.1"
PODS = "10.244.0.0/24"
PAUSE = "registry.example/pause:1"
VOLUMES = 24
"""Claims that one run can bind. Each volume is used once."""
USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
}
"""User and group by the name of the client."""
Addresses = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority that lives as long as the node."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = dataclasses.field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def issue(self, name: str, user: str, group: str = "", hosts: Addresses = ()) -> None:
        """Write `name.crt` and `name.key`; the authority's own if the name is `ca`."""
        key = self.key if name == "ca" else ec.generate_private_key(ec.SECP256R1())
        parts = [(NameOID.COMMON_NAME, user), *([(NameOID.ORGANIZATION_NAME, group)] if group else [])]
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(*part) for part in parts]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
        )
        if name != "ca":
            usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([make_name(each) for each in hosts]), False)
        certificate = builder.sign(self.key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(private)


def make_name(host: str) -> x509.GeneralName:
    """The name of a host in a certificate."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write(folder: Path, *, programs: Path, port: int, cgroup: str, kubeconfig: Path) -> None:
    """Write all files of a node.

    port: the outside port of the API server. cgroup: the name of the cgroup for all Pods. kubeconfig: the file for
    users outside.
    """
    for name in ("pki", "containerd", "state", "kubelet", "cni", "log", "pod-logs", "volumes"):
        (folder / name).mkdir(parents=True)
    for number in range(VOLUMES):
        volume = folder / "volumes" / str(number)
        volume.mkdir()
        volume.chmod(0o777)
    authority = Authority(folder=folder / "pki")
    authority.issue("ca", "ca")
    authority.issue("service-accounts", "service-accounts")
    names = ("127.0.0.1", ADDRESS, SERVICES_FIRST, "localhost", "kubernetes.default.svc")
    authority.issue("apiserver", "apiserver", hosts=names)
    for name, (user, group) in USERS.items():
        authority.issue(name, user, group, hosts=[ADDRESS, NODE] if name == "kubelet" else ())
        write_json(folder / f"{name}.kubeconfig", make_kubeconfig(folder / "pki", name, f"{ADDRESS}:6443"))
    write_json(kubeconfig, make_kubeconfig(folder / "pki", "admin", f"127.0.0.1:{port}"))
    (folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
    (folder / "Corefile").write_text(COREFILE.format(kubeconfig=folder / "admin.kubeconfig"))
    (folder / "containerd.toml").write_text(
        CONTAINERD.format(folder=folder, programs=programs, runc=shutil.which("runc"))
    )
    write_json(folder / "cni" / "10-node.conflist", make_network(folder))
    write_json(folder / "kubelet.json", make_kubelet(folder, cgroup))
    write_json(folder / "proxy.json", make_proxy(folder))
    write_json(folder / "objects.json", {"apiVersion": "v1", "kind": "List", "items": list(make_storage(folder))})


def write_json(path: Path, content: Any) -> None:
    """Write JSON, which all of these programs accept as YAML."""
    path.write_text(json.dumps(content, indent=1))


def make_kubeconfig(pki: Path, name: str, server: str) -> Any:
    """A kubeconfig of one of the users, with its credentials inside."""

    def encode(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    cluster = {"server": f"https://{server}", "certificate-authority-data": encode("ca.crt")}
    user = {"client-certificate-data": encode(f"{name}.crt"), "client-key-data": encode(f"{name}.key")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": name}}],
        "current-context": "node",
    }


def make_kubelet(folder: Path, cgroup: str) -> Any:
    """Settings of the kubelet. Outside its namespaces, it changes only its cgroup and six sysctls."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "pki/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(folder / "pki/kubelet.crt"),
        "tlsPrivateKeyFile": str(folder / "pki/kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # a lower one needs CAP_SYS_RESOURCE
        "clusterDNS": [ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "podLogsDir": str(folder / "pod-logs"),
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "volumePluginDir": str(folder / "kubelet/plugins"),
        "healthzBindAddress": ADDRESS,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "fileCheckFrequency": "0s",
        "serializeImagePulls": False,
        # Tests see the fifth crash of a container, not the fifth after five minutes.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "8s"},
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
    }


def make_proxy(folder: Path) -> Any:
    """Settings of kube-proxy."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(folder / "proxy.kubeconfig")},
        "mode": "iptables",
        "clusterCIDR": PODS,
        "hostnameOverride": NODE,
        "nodeIPOverride": [ADDRESS],
        "healthzBindAddress": f"{ADDRESS}:10256",
        "metricsBindAddress": f"{ADDRESS}:10249",
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "oomScoreAdj": 0,
    }


def make_network(folder: Path) -> Any:
    """The network of the Pods: a bridge. No plugin enforces NetworkPolicies."""
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return {"cniVersion": "1.0.0", "name": "node", "plugins": [{**bridge, "ipam": addresses}, ports]}


def make_storage(folder: Path) -> list[Any]:
    """The default StorageClass and its volumes: folders of the node, each for one claim."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": NODE, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{NODE}-{number}"},
            "spec": {
                "storageClassName": NODE,
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder / "volumes" / str(number)), "type": "Directory"},
            },
        }
        for number in range(VOLUMES)
    ]
    return [storage_class, *volumes]


COREFILE = """.:53 {{
  errors
  cache 5
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
  }}
}}
"""
CONTAINERD = f"""version = 3
root = "{{folder}}/containerd"
state = "{{folder}}/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[plugins."io.containerd.internal.v1.opt"]
  path = "{{folder}}/opt"
[grpc]
  address = "{{folder}}/containerd.sock"
[ttrpc]
  address = "{{folder}}/containerd.sock.ttrpc"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_selinux = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{{programs}}"]
    conf_dir = "{{folder}}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{{runc}}"
      SystemdCgroup = false
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE}"
"""
