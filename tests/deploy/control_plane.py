"""A Kubernetes cluster for the tests: the real control plane on loopback, and nodes that kwok simulates.

No container runs in it: pods become ready as tests/deploy/cluster/stages.yaml says.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import tools
from tests.integration.daemon import eventually
from tests.metrics_reference_test import REPOSITORY

STAGES = REPOSITORY / "tests/deploy/cluster/stages.yaml"
TOKEN = "the-tests-own"
NODES = ["node-a", "node-b", "node-c"]

Object = dict[str, Any]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def answers(url: str) -> bool:
    """Whether a server with a certificate of its own calls itself healthy."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=2, context=ssl._create_unverified_context()) as answer:
            return answer.status == 200
    except OSError:
        return False


class Cluster:
    """kubectl and helm against one cluster."""

    def __init__(self, folder: Path, address: str, stack: ExitStack) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._stack = stack
        self._env = os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(folder)}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {"server": address, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "tests", "user": {"token": TOKEN}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }  # fmt: skip
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def start(self, name: str, *command: str, healthy: Callable[[], bool], env: dict[str, str] | None = None) -> None:
        """A program of the control plane, until the cluster ends."""
        log = self.folder / f"{name}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self._env | (env or {})
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        eventually(lambda: process.poll() is not None or healthy(), f"{name} is healthy", 60)
        assert process.poll() is None, log.read_text()[-4000:]

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def run(self, *command: str, text: str | None = None, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input=text, capture_output=True, text=True, env=self._env, timeout=seconds)

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        done = self.run(tools.built("kubectl"), *arguments, text=text)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def helm(self, *arguments: str, code: int = 0) -> str:
        done = self.run(tools.helm(), *arguments)
        assert done.returncode == code, f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def apply(self, objects: list[Object], *arguments: str) -> None:
        """Server-side; a field that isn't defined is an error."""
        text = yaml.safe_dump_all(objects)
        self.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", *arguments, text=text)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", "--output=json", *arguments))

    def find(self, *arguments: str) -> Any:
        """The object, or None where there is none."""
        text = self.kubectl("get", "--output=json", "--ignore-not-found", *arguments)
        return json.loads(text) if text else None

    def define(self, group: str) -> None:
        """The custom resources of a group."""
        paths = sorted(tools.kinds().glob(f"{group}_*.yaml"))
        self.kubectl("apply", "--server-side", *(f"--filename={path}" for path in paths))
        self.wait_for("Established", "crd")

    def wait_for(self, condition: str, kind: str) -> None:
        """Of all objects of a kind. `kubectl wait` fails on those that have no conditions yet."""
        eventually(lambda: all(has(each, condition) for each in self.get(kind)["items"]), f"{kind} {condition}", 60)

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        self.kubectl("create", "namespace", name)
        yield name
        self.kubectl("delete", "namespace", name, "--wait=false")

    def pods(self, namespace: str, selector: str = "") -> list[Object]:
        return self.get("pods", f"--namespace={namespace}", f"--selector={selector}")["items"]


def has(thing: Object, condition: str) -> bool:
    conditions = thing.get("status", {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def is_ready(pod: Object) -> bool:
    return has(pod, "Ready")


@contextmanager
def control_plane(folder: Path) -> Iterator[Cluster]:
    for program in ("openssl", "etcd"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing; {tools.INSTALL}")
    programs = {name: tools.built(name) for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")}
    kwok = tools.built("kwok")
    etcd, peers, api, manager, scheduler, simulator = (free_port() for _ in range(6))
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f"{TOKEN},tests,tests,system:masters\n")
    with ExitStack() as stack:
        cluster = Cluster(folder, f"https://127.0.0.1:{api}", stack)
        etcd_url = f"http://127.0.0.1:{etcd}"
        peer_url = f"http://127.0.0.1:{peers}"
        cluster.start(
            "etcd", "etcd", f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}", f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            healthy=lambda: answers(f"{etcd_url}/health"),
        )  # fmt: skip
        cluster.start(
            "kube-apiserver", programs["kube-apiserver"], f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1", f"--secure-port={api}", f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
            # Debian's etcd is too old for it: clients would try again and again.
            "--feature-gates=WatchList=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            healthy=lambda: answers(f"https://127.0.0.1:{api}/readyz"),
        )  # fmt: skip
        common = [f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        cluster.start(
            "kube-controller-manager", programs["kube-controller-manager"], *common, f"--secure-port={manager}",
            f"--cert-dir={folder / 'manager'}", f"--service-account-private-key-file={key}",
            healthy=lambda: answers(f"https://127.0.0.1:{manager}/healthz"),
        )  # fmt: skip
        cluster.start(
            "kube-scheduler", programs["kube-scheduler"], *common, f"--secure-port={scheduler}",
            f"--cert-dir={folder / 'scheduler'}",
            healthy=lambda: answers(f"https://127.0.0.1:{scheduler}/healthz"),
        )  # fmt: skip
        cluster.start(
            "kwok", kwok, f"--kubeconfig={cluster.kubeconfig}", f"--config={STAGES}", "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40", f"--server-address=127.0.0.1:{simulator}",
            healthy=lambda: answers(f"http://127.0.0.1:{simulator}/healthz"),
        )  # fmt: skip
        kind = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        zones = [{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name[-1]} | kind for name in NODES]
        for name, labels in zip(NODES, zones, strict=True):
            cluster.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}])
        cluster.wait_for("Ready", "node")
        yield cluster
