"""The chart on Kubernetes' own control plane: applied, installed, upgraded, rolled back, drained.

Nodes are simulated, so pods say when they are ready and no container runs. What a kubelet would ask of the real
server its own prober asks, at the end.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import models
from tests.deploy import tools
from tests.deploy.control_plane import NODES, Cluster, Object, control_plane, is_ready
from tests.deploy.test_chart import CASES, CHART, render, server
from tests.fakes.stand_in import stand_in
from tests.integration.daemon import Daemon, eventually

pytestmark = pytest.mark.slow

SERVERS = "app.kubernetes.io/component=server"
BASE = ["--set=model.source=/models", "--set=cache.source=/kernels", "--set=replicaCount=3"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with control_plane(tmp_path_factory.mktemp("cluster")) as running:
        running.define("monitoring.coreos.com")
        yield running


NEVER_READY = "--set-string=podAnnotations.stoker\\.test/never-ready=yes"


def ready_after(seconds: int) -> str:
    """A setting: how long the pods take to become ready."""
    return f"--set-string=podAnnotations.stoker\\.test/ready-after={seconds}s"


def install(cluster: Cluster, namespace: str, *arguments: str) -> None:
    cluster.helm("install", "stoker", str(CHART), f"--namespace={namespace}", "--wait", "--timeout=90s", *arguments)


def settled(cluster: Cluster, namespace: str) -> bool:
    status = cluster.get("deployment", "stoker", f"--namespace={namespace}")["status"]
    return status.get("readyReplicas") == status.get("replicas") == status.get("updatedReplicas") == 3


@contextmanager
def counted(cluster: Cluster, namespace: str) -> Iterator[list[int]]:
    """How many servers were ready, time and again."""
    seen: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            pods = cluster.pods(namespace, SERVERS)
            seen.append(sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_server_takes_the_objects(cluster: Cluster, case: Path) -> None:
    """All checks of the API server, without keeping anything."""
    objects = list(render(case))
    for each in objects:
        each["metadata"]["namespace"] = "default"
    cluster.apply(objects, "--dry-run=server")
    deployment = next(each for each in objects if each["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["startupProb"] = {}
    with pytest.raises(AssertionError, match="startupProb"):
        cluster.apply(objects, "--dry-run=server")


def test_the_pods_meet_the_strictest_standard(cluster: Cluster) -> None:
    """Pod security admission refuses what isn't restricted: privileges, root, writable roots of others."""
    with cluster.namespace("restricted") as namespace:
        cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
        install(cluster, namespace, "--set=model.source=/models")  # with the init container
        assert sum(is_ready(pod) for pod in cluster.pods(namespace, SERVERS)) == 1


def test_install_upgrade_and_rollback(cluster: Cluster) -> None:
    with cluster.namespace("upgrade") as namespace:
        install(cluster, namespace, *BASE, ready_after(1))
        upgrade = ["upgrade", "stoker", str(CHART), f"--namespace={namespace}", "--wait", *BASE]
        nodes = {pod["spec"]["nodeName"] for pod in cluster.pods(namespace, SERVERS)}
        assert nodes == set(NODES)  # spread

        with counted(cluster, namespace) as ready:
            # Servers that never become ready take nobody's place.
            cluster.helm(*upgrade, "--atomic", "--timeout=10s", "--set=server.logLevel=debug", NEVER_READY, code=1)
            eventually(lambda: settled(cluster, namespace), "the old ones serve", 30)
            assert "--log-level=info" in arguments(cluster, namespace)
            cluster.helm(*upgrade, "--timeout=90s", "--set=server.logLevel=warn", ready_after(1))
            assert "--log-level=warn" in arguments(cluster, namespace)
            cluster.helm("rollback", "stoker", "1", f"--namespace={namespace}", "--wait", "--timeout=90s")
            assert "--log-level=info" in arguments(cluster, namespace)
        assert min(ready) >= 3, ready


def arguments(cluster: Cluster, namespace: str) -> list[str]:
    deployment = cluster.get("deployment", "stoker", f"--namespace={namespace}")
    return deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def drain(cluster: Cluster, *nodes: str) -> None:
    """What is in the pods' emptyDirs can be had again."""
    cluster.kubectl("drain", *nodes, "--timeout=60s", "--delete-emptydir-data", f"--pod-selector={SERVERS}")


def test_a_drain_waits_for_other_pods(cluster: Cluster) -> None:
    with cluster.namespace("drained") as namespace:
        install(cluster, namespace, *BASE, ready_after(3))
        with counted(cluster, namespace) as ready:
            try:
                drain(cluster, *NODES[:2])
                eventually(lambda: settled(cluster, namespace), "all servers are back", 60)
            finally:
                cluster.kubectl("uncordon", *NODES)
        assert min(ready) == 2, ready
        # One that was never ready stops nobody.
        cluster.helm(
            "upgrade", "stoker", str(CHART), f"--namespace={namespace}", *BASE, "--set=replicaCount=1", NEVER_READY
        )
        cluster.kubectl("delete", "pod", "--all", f"--namespace={namespace}")
        eventually(lambda: len(cluster.pods(namespace, SERVERS)) > 0, "a pod that isn't ready", 30)
        (pod,) = [each for each in cluster.pods(namespace, SERVERS) if not is_ready(each)][:1]
        eventually(lambda: bool(node_of(cluster, pod)), "it has a node", 30)
        try:
            drain(cluster, node_of(cluster, pod))
        finally:
            cluster.kubectl("uncordon", *NODES)


def node_of(cluster: Cluster, pod: Object) -> str:
    found = cluster.get("pod", pod["metadata"]["name"], f"--namespace={pod['metadata']['namespace']}")
    return found["spec"].get("nodeName", "")


def test_the_job_comes_before_the_servers(cluster: Cluster) -> None:
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "kernels"},
        "spec": {
            "storageClassName": "fast", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "20Gi"},
            "hostPath": {"path": "/kernels"}, "persistentVolumeReclaimPolicy": "Delete",
        },
    }  # fmt: skip
    cluster.apply([volume])
    with cluster.namespace("job") as namespace:
        given = [f"--values={CHART / 'ci/job.yaml'}", "--set=model.source=/models"]
        install(cluster, namespace, *given)
        events = cluster.get("events", f"--namespace={namespace}", "--field-selector=reason=Completed")["items"]
        assert [event["involvedObject"]["name"] for event in events] == ["stoker-warm"]
        assert cluster.find("job", "stoker-warm", f"--namespace={namespace}") is None  # it succeeded
        (pod,) = cluster.pods(namespace, SERVERS)
        assert is_ready(pod) and pod["metadata"]["creationTimestamp"] >= events[0]["firstTimestamp"]
        cluster.helm("uninstall", "stoker", f"--namespace={namespace}", "--wait")
        assert cluster.find("pvc", "stoker-cache", f"--namespace={namespace}")["status"]["phase"] == "Bound"
    cluster.kubectl("delete", "pv", "kernels", "--wait=false")


def probe(daemon: Daemon, probes: Object, name: str) -> tuple[bool, str]:
    """What the kubelet would think of this probe of a container, and what it would write down."""
    asked = probes[f"{name}Probe"]
    command = [tools.built("probe"), str(daemon.port), asked["grpc"]["service"], f"{asked['timeoutSeconds']}s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    result, _, words = done.stdout.partition("\n")
    assert (result, done.returncode) in (("success", 0), ("failure", 1)), done.stdout + done.stderr
    return result == "success", words.strip()


def test_the_kubelet_waits_for_a_warm_up(tmp_path: Path) -> None:
    """One that is longer than the readiness and liveness probes would wait. The compiler waits at a gate."""
    probes = server(render("serve"))
    cache = tmp_path / "cache"
    gate = cache / "v1/scratch/gate"
    gate.parent.mkdir(parents=True)
    for folder in (cache, cache / "v1"):
        folder.chmod(0o700)
    os.mkfifo(gate)
    script = stand_in(tmp_path / "python", "fake_worker.py", "--start", "gated", "--job", "refuse")
    models.write("mlp", tmp_path / "models")
    patience = max(
        probes[f"{name}Probe"]["periodSeconds"] * probes[f"{name}Probe"]["failureThreshold"]
        for name in ("readiness", "liveness")
    )
    with Daemon(tmp_path / "models", cache, tmp_path / "log", f"--compiler-python={script}") as daemon:
        with open(gate, "wb"):  # waits for the worker to wait
            end = time.monotonic() + patience + 2
            while time.monotonic() < end:
                assert probe(daemon, probes, "liveness") == (True, "service healthy")
                for name in ("startup", "readiness"):
                    alive, words = probe(daemon, probes, name)
                    assert not alive and words == 'service unhealthy (responded with "NOT_SERVING")', words
                time.sleep(1)
        eventually(lambda: probe(daemon, probes, "startup")[0], "it has started", 60)
        assert probe(daemon, probes, "readiness")[0]
        assert daemon.stop() == 0
