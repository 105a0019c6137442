"""The chart: every set of values of ci/ renders to what Kubernetes' schemas take and Stoker understands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import tools
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

CHART = REPOSITORY / "deploy/kubernetes/charts/stoker"
CASES = sorted((CHART / "ci").glob("*.yaml"))
CUSTOM = "monitoring.coreos.com/v1"
REPEATED = {"--tls-client-name"}
KUBERNETES = "1.35"

Object = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools.helm(), *arguments], capture_output=True, text=True, timeout=60)


def template(values: Path | None = None, *sets: str) -> subprocess.CompletedProcess[str]:
    arguments = ["template", "release", str(CHART), "--namespace=inference"]
    arguments += [f"--values={values}"] if values else []
    return helm(*arguments, *(f"--set={one}" for one in sets))


def render(values: Path | str | None = None, *sets: str) -> list[Object]:
    path = CHART / f"ci/{values}.yaml" if isinstance(values, str) else values
    done = template(path, *sets)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def one(objects: list[Object], kind: str) -> Object:
    found = [each for each in objects if each["kind"] == kind]
    assert len(found) == 1, [each["kind"] for each in objects]
    return found[0]


def pod(objects: list[Object], kind: str = "Deployment") -> Object:
    return one(objects, kind)["spec"]["template"]["spec"]


def server(objects: list[Object]) -> Object:
    return pod(objects)["containers"][0]


def all_pods(objects: list[Object]) -> list[Object]:
    return [each["spec"]["template"]["spec"] for each in objects if each["kind"] in ("Deployment", "Job")]


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)


@each_case
def test_lint(case: Path) -> None:
    done = helm("lint", "--strict", str(CHART), f"--values={case}")
    assert done.returncode == 0, done.stdout + done.stderr


def schema_check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(tools.python()), "-m", "kubernetes_validate", "--strict", "-k", f"{KUBERNETES}.0", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@each_case
def test_the_objects_fit_kubernetes_schemas(case: Path, tmp_path: Path) -> None:
    objects = [each for each in render(case) if each["apiVersion"] != CUSTOM]
    assert {"Deployment", "Service"} <= {each["kind"] for each in objects}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    done = schema_check(tmp_path / "objects.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@each_case
def test_the_custom_objects_fit_their_kinds(case: Path, tmp_path: Path) -> None:
    for kind in ("PodMonitor", "ServiceMonitor"):
        objects = [each for each in render(case, f"metrics.monitor.kind={kind}") if each["apiVersion"] == CUSTOM]
        assert bool(objects) == (case.stem in ("everything", "policy"))
        assert not tools.misfits(objects, tmp_path)


def test_a_misspelt_field_is_seen(tmp_path: Path) -> None:
    objects = render("one-value")
    server(objects)["livenessProb"] = server(objects).pop("livenessProbe")
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    done = schema_check(tmp_path / "objects.yaml")
    assert done.returncode != 0 and "livenessProb" in done.stdout + done.stderr


def test_one_value_is_needed_and_enough() -> None:
    missing = template()
    assert missing.returncode != 0 and "model.source is missing" in missing.stderr
    assert render(None, "model.source=pvc://models")


@each_case
def test_every_flag_is_one_of_stokerds(case: Path) -> None:
    sources = sorted((REPOSITORY / "server/main").glob("*options.cc"))
    known = set(re.findall(r'(--[a-z][a-z-]+)[",]', "".join(source.read_text() for source in sources)))
    for spec in all_pods(render(case)):
        for container in spec["containers"] + spec.get("initContainers", []):
            flags = [argument.split("=")[0] for argument in container["args"]]
            once = [flag for flag in flags if flag not in REPEATED]
            assert set(flags) <= known and len(set(once)) == len(once), flags


@each_case
def test_every_mount_has_its_volume(case: Path) -> None:
    for spec in all_pods(render(case)):
        volumes = [volume["name"] for volume in spec["volumes"]]
        assert len(set(volumes)) == len(volumes)
        mounted = set()
        for container in spec["containers"] + spec.get("initContainers", []):
            mounted |= {mount["name"] for mount in container["volumeMounts"]}
            arguments = dict(a.split("=", 1) for a in container["args"] if "=" in a)
            writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
            # Kubelets make the roots of volumes writable for a group, which Stoker refuses: a folder below.
            assert any(arguments["--cache"].startswith(path + "/") for path in writable)
        assert mounted == set(volumes)


@each_case
def test_the_pods_are_confined(case: Path) -> None:
    for spec in all_pods(render(case)):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"] + spec.get("initContainers", []):
            assert container["securityContext"] == {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@each_case
def test_the_pods_may_be_evicted(case: Path) -> None:
    """The autoscaler of clusters leaves a node alone when a pod has local volumes that aren't listed."""
    template = one(render(case), "Deployment")["spec"]["template"]
    listed = template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"]
    given = {"scratch"}  # extraVolumes of everything.yaml
    local = {volume["name"] for volume in template["spec"]["volumes"] if "emptyDir" in volume} - given
    assert local == set(listed.split(","))


@each_case
def test_the_grace_period_fits_the_drain(case: Path) -> None:
    objects = render(case)
    drain = next(int(a.split("=")[1]) for a in server(objects)["args"] if a.startswith("--drain-seconds="))
    stop = server(objects).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod(objects)["terminationGracePeriodSeconds"] == stop + drain + 10


@each_case
def test_the_probes_ask_services_that_exist(case: Path) -> None:
    names = (REPOSITORY / "server/rpc/rpc_server.cc").read_text()
    pages = (REPOSITORY / "server/main/health_pages.cc").read_text()
    objects = render(case)
    for probe in ("startup", "readiness", "liveness"):
        asked = server(objects)[f"{probe}Probe"]
        if case.stem == "tls":
            assert asked["httpGet"] == {"path": f"/health/{probe}", "port": "metrics"} and f'"{probe}"' in pages
        else:
            assert asked["grpc"] == {"port": 8001, "service": probe} and f'service == "{probe}"' in names
    # The rollout waits longer than a start may take.
    startup = server(objects)["startupProbe"]
    budget = startup["periodSeconds"] * startup["failureThreshold"]
    assert one(objects, "Deployment")["spec"]["progressDeadlineSeconds"] > budget
    assert budget >= 300


@pytest.mark.parametrize(
    ("case", "flags", "volume"),
    [
        ("source-pvc", ["--cache-layer=/mnt/kernels", "--frozen", "--require-cache"], "persistentVolumeClaim"),
        ("source-oci", ["--cache-layer=/mnt/kernels", "--frozen", "--require-cache"], "image"),
        ("baked", ["--cache-layer=/kernels", "--frozen", "--require-cache"], None),
        ("job", ["--cache-layer=/mnt/kernels/cache", "--frozen", "--require-cache"], "persistentVolumeClaim"),
        ("one-value", ["--frozen"], None),
        ("serve", [], None),
    ],
)
def test_who_compiles(case: str, flags: list[str], volume: str | None) -> None:
    objects = render(case)
    asked = ("--cache-layer", "--frozen", "--require-cache")
    assert [a for a in server(objects)["args"] if a.startswith(asked)] == flags
    kernels = [each for each in pod(objects)["volumes"] if each["name"] == "kernels"]
    assert [volume] == [next(key for key in each if key != "name") for each in kernels] or (not volume and not kernels)
    jobs = [each for each in objects if each["kind"] == "Job"]
    assert bool(jobs) == (case == "job")
    assert bool(pod(objects).get("initContainers")) == (case == "one-value")


@pytest.mark.parametrize(
    ("case", "sets", "serves", "compiles"),
    [
        ("one-value", [], "stoker:0.1.0", "stoker:0.1.0-compile"),
        ("one-value", ["image.tag=v2", "image.repository=r.example/s"], "r.example/s:v2", "r.example/s:v2-compile"),
        ("one-value", [f"image.digest=sha256:{'1' * 64}"], f"stoker@sha256:{'1' * 64}", "stoker:0.1.0-compile"),
        ("one-value", ["warm.image.repository=c", "warm.image.tag=v3"], "stoker:0.1.0", "c:v3"),
        ("job", [], "stoker:0.1.0", f"registry.example/stoker-compile@sha256:{'2' * 64}"),
        ("one-value", ["gpu.count=1"], "stoker:0.1.0-cuda", "stoker:0.1.0-compile"),
        ("one-value", ["gpu.count=1", "image.tag=v2-cuda"], "stoker:v2-cuda", "stoker:v2-compile"),
    ],
)
def test_what_serves_and_what_compiles(case: str, sets: list[str], serves: str, compiles: str) -> None:
    objects = render(case, *sets)
    (warm,) = pod(objects, "Job")["containers"] if case == "job" else pod(objects)["initContainers"]
    assert server(objects)["image"] == serves and warm["image"] == compiles


def test_pods_with_gpus() -> None:
    """Who compiles gets what serves gets: an artifact is for one kind of GPU."""
    objects = render("gpu")
    for spec in all_pods(objects):
        (container,) = spec["containers"]
        assert "--default-device=cuda:auto" in container["args"]
        limits = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 1}
        assert container["resources"] == {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": limits}
        assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert spec["runtimeClassName"] == "nvidia" and spec["nodeSelector"]
    assert len(all_pods(objects)) == 2
    (warm,) = pod(render("one-value", "gpu.count=2", "gpu.resource=nvidia.com/mig-1g.10gb"))["initContainers"]
    assert warm["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == 2
    both = pod(render("everything", "gpu.count=1"))["tolerations"]
    assert [each["key"] for each in both] == ["inference", "nvidia.com/gpu"]
    for spec in all_pods(render("everything")):
        assert "nvidia" not in json.dumps(spec) and "cuda" not in json.dumps(spec)


def test_the_folders_of_sources() -> None:
    spec = pod(render("source-pvc"))
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["models"]["subPath"] == "nlp/current" and mounts["kernels"]["subPath"] == "v2026"
    claims = {v["name"]: v["persistentVolumeClaim"] for v in spec["volumes"] if "persistentVolumeClaim" in v}
    assert claims["models"] == {"claimName": "models", "readOnly": True}
    spec = pod(render("source-oci"))
    images = {v["name"]: v["image"]["reference"] for v in spec["volumes"] if "image" in v}
    assert images["models"].startswith("registry.example/models/minilm@sha256:3333")
    assert images["kernels"].startswith("registry.example/kernels/minilm@sha256:0000")
    assert spec["containers"][0]["image"].startswith("registry.example/stoker@sha256:1111")
    assert {m["name"]: m.get("subPath") for m in spec["containers"][0]["volumeMounts"]}["models"] == "models"


def test_what_is_signed_is_checked_with_the_key_of_a_config_map() -> None:
    spec = pod(render("source-oci"))
    container = spec["containers"][0]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "trust"]
    assert mount["readOnly"] and f"--trust={mount['mountPath']}/trusted.pem" in container["args"]
    assert {"name": "trust", "configMap": {"name": "kernels-signer"}} in spec["volumes"]
    assert not any("--trust" in argument for argument in pod(render("source-pvc"))["containers"][0]["args"])


def test_tls_with_a_secret_and_clients_that_show_certificates() -> None:
    objects = render("tls")
    container = server(objects)
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts["tls"]["readOnly"] and mounts["tls-clients"]["readOnly"]
    folder, clients = mounts["tls"]["mountPath"], mounts["tls-clients"]["mountPath"]
    assert [argument for argument in container["args"] if argument.startswith("--tls-")] == [
        f"--tls-certificate={folder}/tls.crt",
        f"--tls-key={folder}/tls.key",
        "--tls-min-version=1.3",
        f"--tls-client-ca={clients}/authorities.pem",
        "--tls-client-name=*.batch.example.com",
        "--tls-client-name=spiffe://cluster/asker",
    ]
    volumes = {volume["name"]: volume for volume in pod(objects)["volumes"]}
    # The server warns of a key that everybody may read.
    assert volumes["tls"]["secret"] == {"secretName": "stoker-certificate", "defaultMode": 0o440}
    assert pod(objects)["securityContext"]["fsGroup"]
    assert volumes["tls-clients"]["configMap"] == {"name": "clients-authorities"}
    ports = {port["name"]: port.get("appProtocol") for port in one(objects, "Service")["spec"]["ports"]}
    assert ports == {"grpc": "https", "http1": "https", "metrics": None}
    # What doesn't serve needs no certificate.
    (warm,) = pod(objects)["initContainers"]
    assert not any("tls" in json.dumps(part) for part in (warm["args"], warm["volumeMounts"]))
    plain = render("one-value")
    assert not any("tls" in volume["name"] for volume in pod(plain)["volumes"])
    ports = {port["name"]: port.get("appProtocol") for port in one(plain, "Service")["spec"]["ports"]}
    assert ports == {"grpc": "kubernetes.io/h2c", "http1": "http", "metrics": None}


def test_a_certificate_by_cert_manager() -> None:
    made = "tls.certManager"
    sets = (f"{made}.enabled=true", f"{made}.issuer.name=ca", f"{made}.dnsNames={{api.example.org}}")
    objects = render("one-value", *sets)
    certificate = one(objects, "Certificate")
    assert certificate["apiVersion"] == "cert-manager.io/v1"
    service = one(objects, "Service")["metadata"]["name"]
    assert certificate["spec"] == {
        "secretName": f"{service}-tls",
        "dnsNames": [
            service,
            f"{service}.inference",
            f"{service}.inference.svc",
            f"{service}.inference.svc.cluster.local",
            "api.example.org",
        ],
        "issuerRef": {"name": "ca", "kind": "Issuer", "group": "cert-manager.io"},
        "privateKey": {"rotationPolicy": "Always"},
        "usages": ["server auth", "digital signature", "key encipherment"],
    }
    (volume,) = [each for each in pod(objects)["volumes"] if each["name"] == "tls"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    headless = one(render("one-value", *sets, "service.headless=true"), "Certificate")
    assert f"*.{service}.inference.svc.cluster.local" in headless["spec"]["dnsNames"]


def test_a_policy_of_a_secret() -> None:
    objects = render("policy")
    (mount,) = [each for each in server(objects)["volumeMounts"] if each["name"] == "policy"]
    # Of a mounted file (subPath) no change would be seen.
    assert mount["readOnly"] and "subPath" not in mount
    assert f"--policy={mount['mountPath']}/access.yaml" in server(objects)["args"]
    volumes = {volume["name"]: volume for volume in pod(objects)["volumes"]}
    assert volumes["policy"]["secret"] == {"secretName": "stoker-policy", "defaultMode": 0o440}
    (warm,) = pod(objects)["initContainers"]
    assert not any("policy" in json.dumps(part) for part in (warm["args"], warm["volumeMounts"]))
    shown = {"type": "Bearer", "credentials": {"name": "scraper", "key": "bearer"}}
    (endpoint,) = one(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == shown
    (endpoint,) = one(render("policy", "metrics.monitor.kind=ServiceMonitor"), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"] == shown
    plain = render("everything")
    assert not any("policy" in volume["name"] for volume in pod(plain)["volumes"])
    assert "authorization" not in one(plain, "ServiceMonitor")["spec"]["endpoints"][0]


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["tls.secret=a", "tls.certManager.enabled=true", "tls.certManager.issuer.name=ca"], "are both set"),
        (["tls.certManager.enabled=true"], "tls.certManager.issuer.name is missing"),
        (["tls.secret=a", "tls.clients.names={x.example.org}"], "tls.clients.configMap is missing"),
        (["tls.clients.configMap=ca"], "tls.secret is missing"),
        (["tls.minVersion=1.1"], "minVersion"),
        (["tls.certificate=a"], "certificate"),
    ],
)
def test_half_of_tls_is_refused(sets: list[str], words: str) -> None:
    done = template(None, "model.source=pvc://models", *sets)
    assert done.returncode != 0 and words in done.stderr


def test_the_job_fills_what_the_servers_read() -> None:
    objects = render("job")
    job, claim = one(objects, "Job"), one(objects, "PersistentVolumeClaim")
    filled = pod(objects, "Job")
    assert "--warm-only" in filled["containers"][0]["args"]
    assert "--cache=/mnt/kernels/cache" in filled["containers"][0]["args"]
    assert job["spec"]["activeDeadlineSeconds"] == 1200
    for spec, read_only in ((filled, None), (pod(objects), True)):
        volume = next(v for v in spec["volumes"] if v["name"] == "kernels")["persistentVolumeClaim"]
        assert volume["claimName"] == claim["metadata"]["name"] and volume.get("readOnly") == read_only
    # Hooks come before the release: what the Job needs is a hook too, and comes before the Job.
    weights = {
        each["kind"]: int(each["metadata"]["annotations"]["helm.sh/hook-weight"])
        for each in objects
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    assert weights["PersistentVolumeClaim"] < weights["Job"] > weights["ServiceAccount"]
    assert filled["serviceAccountName"] == "release-stoker-warm"
    # What the servers are selected by doesn't select the Job.
    selector = one(objects, "Service")["spec"]["selector"]
    assert not selector.items() <= job["spec"]["template"]["metadata"]["labels"].items()
    assert selector.items() <= one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()


def test_everything_is_there() -> None:
    objects = render("everything")
    kinds = {each["kind"] for each in objects}
    assert kinds == {
        "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget",
        "PrometheusRule", "Service", "ServiceAccount", "ServiceMonitor",
    }  # fmt: skip
    assert "replicas" not in one(objects, "Deployment")["spec"]
    scaler = one(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["name"] == one(objects, "Deployment")["metadata"]["name"]
    adapter = yaml.safe_load((REPOSITORY / "deploy/monitoring/prometheus/adapter.yaml").read_text())
    assert scaler["metrics"][0]["pods"]["metric"]["name"] == adapter["rules"][0]["name"]["as"]
    assert {port["name"] for port in server(objects)["ports"]} == {"grpc", "http1", "metrics"}
    assert one(objects, "ServiceMonitor")["spec"]["endpoints"][0]["port"] == "metrics"
    policy = one(objects, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]] == [[8001, 8000], [8002]]
    assert all("from" in rule for rule in policy["ingress"])
    closed = one(render("one-value"), "NetworkPolicy")["spec"]
    assert closed["egress"] == []
    monitor = one(render("everything", "metrics.monitor.kind=PodMonitor"), "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"


def test_rules_and_dashboards_arrive_unchanged(tmp_path: Path) -> None:
    objects = render("everything")
    rules = yaml.safe_load((REPOSITORY / "deploy/monitoring/prometheus/stoker.rules.yaml").read_text())
    assert one(objects, "PrometheusRule")["spec"] == rules
    boards = next(each for each in objects if each["metadata"]["name"].endswith("-dashboards"))
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = sorted((REPOSITORY / "deploy/monitoring/grafana/dashboards").glob("*.json"))
    assert sorted(boards["data"]) == [f"stoker-{path.name}" for path in files]
    for path in files:
        assert json.loads(boards["data"][f"stoker-{path.name}"]) == json.loads(path.read_text())


def test_a_package_holds_rules_and_dashboards(tmp_path: Path) -> None:
    """They are links in the checkout."""
    done = helm("package", str(CHART), f"--destination={tmp_path}")
    assert done.returncode == 0, done.stderr
    package = next(tmp_path.glob("stoker-*.tgz"))
    done = helm("template", "release", str(package), f"--values={CHART / 'ci/everything.yaml'}")
    assert done.returncode == 0 and "StokerNotReady" in done.stdout and "stoker-overview" in done.stdout


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("model.sauce=pvc://models", "sauce"),
        ("model.source=models", "source"),
        ("model.source=pvc://", "source"),
        ("warm.mode=never", "mode"),
        ("replicaCount=two", "replicaCount"),
        ("server.drainSeconds=-1", "drainSeconds"),
        ("image.digest=latest", "digest"),
        ("warm.image.digest=latest", "digest"),
        ("gpu.count=-1", "count"),
        ("gpu.resource=gpu", "resource"),
        ("metrics.monitor.kind=Probe", "kind"),
        ("policy.key=", "key"),
        ("policy.file=a", "file"),
        ("typo=1", "typo"),
    ],
)
def test_wrong_values_are_refused(setting: str, expected: str) -> None:
    done = template(CHART / "ci/one-value.yaml", setting)
    assert done.returncode != 0 and expected in done.stderr


def leaves(schema: Object, values: Object, path: str = "") -> list[str]:
    """Values without a place in the schema, and places in the schema without a value."""
    wrong = [f"{path}{key}: no default" for key in schema["properties"].keys() - values.keys() - {"global"}]
    for key, value in values.items():
        inner = schema["properties"].get(key)
        if inner is None:
            wrong.append(f"{path}{key}: not in the schema")
        elif "properties" in inner:
            assert inner["additionalProperties"] is False, key
            wrong += leaves(inner, value, f"{path}{key}.")
    return wrong


def test_the_schema_and_the_defaults_agree() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    assert not leaves(schema, yaml.safe_load((CHART / "values.yaml").read_text()))


def test_every_value_has_a_comment() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    bare = []
    for number, line in enumerate(lines):
        key = re.match(r"\s*(\w+):(.*)", line)
        # A block's comments are at its fields.
        if key and key[2].strip() and not lines[number - 1].lstrip().startswith("#"):
            bare.append(line)
    assert not bare, bare
