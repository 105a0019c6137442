"""What is for KServe, with its own controller and webhooks: what becomes of the runtime and of each example."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy import tools
from tests.deploy.control_plane import Cluster, Object, answers, control_plane, free_port, is_ready
from tests.deploy.test_kserve import EXAMPLES, FOLDER, RUNTIMES, container, predictor, read, runtime_of, service
from tests.integration.daemon import eventually

pytestmark = pytest.mark.slow

NAMESPACE = "kserve"
PREDICTOR = "minilm-predictor"
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def settings() -> Object:
    """As KServe ships them, but for ingresses: there is nobody here who would make one."""
    shipped = yaml.safe_load(tools.kserve("settings.yaml").read_text())
    for name, changes in {
        "ingress": {"disableIngressCreation": True, "disableIstioVirtualHost": True},
        "deploy": {"defaultDeploymentMode": "Standard"},
    }.items():
        shipped["data"][name] = json.dumps(json.loads(shipped["data"][name]) | changes)
    del shipped["data"]["_example"]
    return shipped


def webhooks(port: int, authority: bytes) -> list[Object]:
    """As KServe ships them, but for the address."""
    configurations = [each for each in yaml.safe_load_all(tools.kserve("webhooks.yaml").read_text()) if each]
    for configuration in configurations:
        del configuration["metadata"]["creationTimestamp"]
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {
                "url": f"https://127.0.0.1:{port}{path}",
                "caBundle": base64.b64encode(authority).decode(),
            }
    return configurations


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    controller = tools.built("kserve-controller")
    with control_plane(tmp_path_factory.mktemp("cluster")) as running:
        for group in ("serving.kserve.io", "keda.sh", "monitoring.coreos.com"):
            running.define(group)
        running.kubectl("create", "namespace", NAMESPACE)
        running.apply([settings()])
        # The controller looks for its certificate in the temporary folder.
        certificates = running.folder / "k8s-webhook-server/serving-certs"
        certificates.mkdir(parents=True)
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"]
        subprocess.run(command, cwd=certificates, check=True, capture_output=True)
        webhook, metrics, health = (free_port() for _ in range(3))
        running.start(
            "kserve", controller, f"--webhook-port={webhook}", f"--metrics-addr=127.0.0.1:{metrics}",
            f"--health-probe-addr=127.0.0.1:{health}",
            healthy=lambda: answers(f"http://127.0.0.1:{health}/readyz"),
            env={"POD_NAMESPACE": NAMESPACE, "TMPDIR": str(running.folder)},
        )  # fmt: skip
        running.apply(webhooks(webhook, (certificates / "tls.crt").read_bytes()))
        for path in RUNTIMES.values():
            running.apply(read(path))
        running.apply(read(FOLDER / "podmonitor.yaml"))
        yield running


def storage(namespace: str, name: str) -> list[Object]:
    """A volume, and the claim that gets it."""
    size = {"storage": "1Gi"}
    modes = ["ReadWriteMany"]
    volume = f"{namespace}-{name}"
    return [
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"accessModes": modes, "capacity": size, "hostPath": {"path": f"/{name}"}},
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "storageClassName": "", "volumeName": volume, "accessModes": modes, "resources": {"requests": size}
            },
        },
    ]  # fmt: skip


@each_example
def test_what_becomes_of_an_example(cluster: Cluster, example: Path) -> None:
    with cluster.namespace(example.stem) as namespace:
        inside = f"--namespace={namespace}"
        cluster.apply([*storage(namespace, "models"), *storage(namespace, "kernels")])
        if example.stem == "pvc":
            cluster.apply(read(FOLDER / "warm.yaml"), inside)
            cluster.kubectl("wait", "--for=condition=Complete", "job/minilm-warm", "--timeout=60s", inside)
        cluster.apply(read(example), inside)
        eventually(lambda: cluster.find("deployment", PREDICTOR, inside) is not None, "a deployment", 60)
        deployment = cluster.find("deployment", PREDICTOR, inside)
        spec = deployment["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] == 45
        server = spec["containers"][0]
        assert server["name"] == "kserve-container"
        own = [argument.replace("{{.Name}}", "minilm") for argument in container(runtime_of(example))["args"]]
        assert server["args"] == own + predictor(example)["model"].get("args", [])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert server[probe]["grpc"] == container()[probe]["grpc"]
        limits = server["resources"]["limits"]
        assert limits.get("nvidia.com/gpu") == ("1" if example.stem == "gpu" else None)
        assert bool(spec.get("tolerations")) == (example.stem == "gpu")
        startup = server["startupProbe"]
        budget = startup["periodSeconds"] * startup["failureThreshold"]
        assert budget < deployment["spec"]["progressDeadlineSeconds"]

        (port,) = [each for each in cluster.get("service", PREDICTOR, inside)["spec"]["ports"] if each["port"] == 80]
        assert port["targetPort"] in (8001, "h2c") and port["appProtocol"] == "kubernetes.io/h2c"

        if example.stem != "scaled":  # its number of pods is KEDA's to say
            eventually(lambda: any(is_ready(each) for each in pods(cluster, namespace)), "a pod is ready", 60)
            expect_mounts(example, pods(cluster, namespace)[0]["spec"])
        (monitor,) = read(FOLDER / "podmonitor.yaml")
        wanted = monitor["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
        if example.stem == "scaled":
            expect_scaling(cluster, example, namespace)
        cluster.kubectl("delete", "inferenceservice", "minilm", inside)


def pods(cluster: Cluster, namespace: str) -> list[Object]:
    return cluster.pods(namespace, f"app=isvc.{PREDICTOR}")


def expect_mounts(example: Path, spec: Object) -> None:
    """How the models come, which the webhook adds to each pod."""
    server = spec["containers"][0]
    mounts = {mount["mountPath"]: mount for mount in server["volumeMounts"]}
    uri = predictor(example)["model"]["storageUri"]
    if uri.startswith("oci://"):
        assert [each["name"] for each in spec["containers"][1:]] == ["modelcar"] and spec["shareProcessNamespace"]
        assert "/mnt/models" not in mounts and mounts["/mnt"]
        assert server["securityContext"]["runAsUser"] == 1010
        assert {"name": "MODEL_INIT_MODE", "value": "async"} in server["env"]
    else:
        assert mounts["/mnt/models"]["readOnly"]
        initialised = [each["name"] for each in spec.get("initContainers", [])]
        assert initialised == ([] if uri.startswith("pvc://") else ["storage-initializer"])
    for name in ("runAsNonRoot", "readOnlyRootFilesystem"):
        assert server["securityContext"][name] is True


def expect_scaling(cluster: Cluster, example: Path, namespace: str) -> None:
    spec = cluster.get("scaledobject", PREDICTOR, f"--namespace={namespace}")["spec"]
    (trigger,) = spec["triggers"]
    (metric,) = predictor(example)["autoScaling"]["metrics"]
    assert trigger["type"] == "prometheus" and trigger["metadata"]["threshold"] == "0.05"
    assert trigger["metadata"]["query"] == metric["external"]["metric"]["query"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 8)
    scaler = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert scaler["stabilizationWindowSeconds"] == 600
    assert cluster.find("hpa", PREDICTOR, f"--namespace={namespace}") is None


def test_a_format_of_others_needs_the_name(cluster: Cluster) -> None:
    """KServe leaves a service without a runtime, and says so, rather than to take Stoker for any pytorch."""
    asked = service(FOLDER / "examples/s3.yaml")
    asked["spec"]["predictor"]["model"]["modelFormat"]["name"] = "pytorch"
    del asked["spec"]["predictor"]["serviceAccountName"]
    with cluster.namespace("unnamed") as namespace:
        cluster.apply([asked], f"--namespace={namespace}")

        def status() -> str:
            return json.dumps(cluster.get("inferenceservice", "minilm", f"--namespace={namespace}").get("status", {}))

        eventually(lambda: "RuntimeNotRecognized" in status() or "NoSupportingRuntime" in status(), status(), 60)
        assert cluster.find("deployment", PREDICTOR, f"--namespace={namespace}") is None
        cluster.kubectl("delete", "inferenceservice", "minilm", f"--namespace={namespace}")
