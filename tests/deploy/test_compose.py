"""deploy/docker/compose.yaml: the file says what it should, and what can be run here is run.

Prometheus', Alertmanager's and Grafana's images come from a registry; here their configurations are checked by
their own programs. The demo model, the warm-up, the server and the client run for real.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy import tools
from tests.deploy.containers import Docker
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

DEPLOY = REPOSITORY / "deploy"
FILE = DEPLOY / "docker/compose.yaml"
OURS = {"model", "warm", "stoker", "client"}

Compose = Callable[..., subprocess.CompletedProcess[str]]


def compose(
    *arguments: str, env: dict[str, str] | None = None, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is missing; tests/deploy/install.sh installs it")
    command = ["docker-compose", "--project-name", "stoker-test", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, env=os.environ | (env or {})
    )


@pytest.fixture(scope="module")
def services() -> dict[str, dict]:
    """As docker-compose reads them."""
    done = compose("--profile", "client", "--file", str(FILE), "config")
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


def test_a_mistake_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("service_completed_successfully", "service_is_finished"))
    assert compose("--file", str(wrong), "config").returncode != 0


def test_everybody_is_confined(services: dict[str, dict]) -> None:
    assert set(services) == OURS | {"prometheus", "alertmanager", "grafana"}
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["pids_limit"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), (name, port)
        if "restart" in service:
            assert service["mem_limit"], name


def test_the_order_and_what_has_to_be_equal(services: dict[str, dict]) -> None:
    warm, stoker = services["warm"], services["stoker"]
    assert warm["depends_on"] == {"model": {"condition": "service_completed_successfully"}}
    assert stoker["depends_on"] == {"warm": {"condition": "service_completed_successfully"}}
    assert services["client"]["depends_on"] == {"stoker": {"condition": "service_healthy"}}
    assert "depends_on" not in services["prometheus"]
    assert warm["cpus"] == stoker["cpus"] and warm["volumes"] == stoker["volumes"]
    known = set(re.findall(r'(--[a-z][a-z-]+)[",]', (REPOSITORY / "server/main/options.cc").read_text()))
    flags = dict((flag + "=").split("=")[:2] for flag in [*warm["command"], *stoker["command"]])
    assert set(flags) <= known
    assert int(flags["--drain-seconds"]) + 10 <= int(stoker["stop_grace_period"].removesuffix("s"))


def test_on_gpus(services: dict[str, dict]) -> None:
    """The second file changes who gets GPUs, the image that serves, and the device: nothing else."""
    on_gpus = str(FILE.with_name("compose.gpu.yaml"))
    done = compose("--profile", "client", "--file", str(FILE), "--file", on_gpus, "config")
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)["services"]
    gpus = {"resources": {"reservations": {"devices": [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]}}}
    expected = {name: dict(service) for name, service in services.items()}
    for service in (*found.values(), *expected.values()):
        service["volumes"] = sorted(service["volumes"])  # docker-compose has no order of its own
    for name in ("warm", "stoker"):
        expected[name] |= {"deploy": gpus, "command": [*services[name]["command"], "--default-device=cuda:auto"]}
    expected["stoker"]["image"] = "stoker:cuda"
    assert found == expected


def test_behind_a_policy(services: dict[str, dict], tmp_path: Path) -> None:
    """The third file mounts a folder, and names the policy in it: nothing else."""
    files = ["--profile", "client", "--file", str(FILE), "--file", str(FILE.with_name("compose.policy.yaml")), "config"]
    done = compose(*files, env={"STOKER_POLICY": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)["services"]
    expected = {name: dict(service) for name, service in services.items()}
    stoker = expected["stoker"]
    stoker["command"] = [*stoker["command"], "--policy=/etc/stoker/policy/policy.yaml"]
    stoker["volumes"] = [*stoker["volumes"], f"{tmp_path}:/etc/stoker/policy:ro"]
    for service in (*found.values(), *expected.values()):
        service["volumes"] = sorted(service["volumes"])
    assert found == expected
    assert compose(*files).returncode != 0  # without a folder


def test_mounted_files_exist(services: dict[str, dict]) -> None:
    mounted = [volume.split(":")[0] for service in services.values() for volume in service["volumes"]]
    folders = [Path(source) for source in mounted if source.startswith("/")]
    assert len(folders) == 4 and all(DEPLOY in folder.parents and folder.exists() for folder in folders)


def test_prometheus_takes_its_configuration(services: dict[str, dict], tmp_path: Path) -> None:
    promtool = tools.of_package("promtool", "prometheus")

    def check(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [promtool, "check", "config", str(folder / "prometheus.yml")]
        return subprocess.run(command, capture_output=True, text=True)

    done = check(DEPLOY / "monitoring/prometheus")
    assert done.returncode == 0 and re.search(r"[1-9]\d* rules? found", done.stdout), done.stdout + done.stderr
    text = (DEPLOY / "monitoring/prometheus/prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("scrape_interval", "scrap_interval"))
    assert check(tmp_path).returncode != 0
    # Its targets are services, on ports that these have.
    config = yaml.safe_load(text)
    (job,) = config["scrape_configs"]
    assert "stoker" in job["job_name"] and job["static_configs"] == [{"targets": ["stoker:8002"]}]
    assert config["alerting"]["alertmanagers"] == [{"static_configs": [{"targets": ["alertmanager:9093"]}]}]
    assert any("8002:8002" in port for port in services["stoker"]["ports"])
    assert any("9093:9093" in port for port in services["alertmanager"]["ports"])


def test_alertmanager_takes_its_configuration(tmp_path: Path) -> None:
    amtool = shutil.which("amtool") or pytest.skip("amtool is missing; tests/deploy/install.sh installs it")

    def check(path: Path) -> int:
        return subprocess.run([amtool, "check-config", str(path)], capture_output=True).returncode

    good = DEPLOY / "monitoring/prometheus/alertmanager.yml"
    assert check(good) == 0
    (tmp_path / "bad.yml").write_text(good.read_text().replace("receiver: nobody", "receiver: somebody"))
    assert check(tmp_path / "bad.yml") != 0


def test_grafana_finds_its_data_and_dashboards(services: dict[str, dict]) -> None:
    grafana = services["grafana"]
    mounts = {volume.split(":")[1]: Path(volume.split(":")[0]) for volume in grafana["volumes"]}
    provisioning = mounts["/etc/grafana/provisioning"]
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["type"] == "prometheus" and source["isDefault"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards/stoker.yaml").read_text())["providers"]
    dashboards = mounts[provider["options"]["path"]]
    assert sorted(dashboards.glob("*.json")) == sorted((DEPLOY / "monitoring/grafana/dashboards").glob("*.json"))
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (mounts[str(home.parent)] / home.name).is_file()


@pytest.fixture(scope="module")
def project(docker: Docker, images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """docker-compose on the tests' daemon. The demo model's weights come by the host's network here: the tests'
    daemon leaves the host's packet filter alone, so that its own networks reach nothing outside."""
    override = tmp_path_factory.mktemp("compose") / "override.yaml"
    model: dict = {"network_mode": "host"}
    if certificates := os.environ.get("PIP_CERT"):
        model |= {"environment": {"PIP_CERT": "/ca.crt"}, "volumes": [f"{certificates}:/ca.crt:ro"]}
    override.write_text(json.dumps({"services": {"model": model}}))

    def run(*arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        files = ["--file", str(FILE), "--file", str(override)]
        return compose(*files, *arguments, env=docker.environment(), seconds=seconds)

    yield run
    done = run("--profile", "client", "down", "--volumes", "--timeout", "45", seconds=120)
    assert done.returncode == 0, done.stderr


def test_from_nothing_to_an_answer(docker: Docker, project: Compose) -> None:
    started = project("up", "--detach", "stoker", seconds=1800)
    assert started.returncode == 0, started.stdout + started.stderr
    warm = project("logs", "--no-color", "warm").stdout
    assert re.search(r"8 compiled, 0 refused on evidence, 0 without an artifact, 0 versions failed", warm), warm
    # Starts the client only once the server is healthy.
    client = project("run", "--rm", "-T", "client", seconds=300)
    assert client.returncode == 0, client.stdout + client.stderr
    print(client.stdout)
    assert re.search(r"^ +0\.\d+ █+ +A loaf stays soft for days in a closed bread box\.$", client.stdout, re.M)
    assert re.search(r"^tier +aot +101 requests", client.stdout, re.M) and "eager" not in client.stdout
    # A second start finds everything where it was.
    again = project("up", "--detach", "stoker", seconds=300)
    assert again.returncode == 0, again.stderr
    assert "8 compiled" in project("logs", "--no-color", "--tail=3", "warm").stdout
    (stoker,) = project("ps", "--quiet", "stoker").stdout.split()
    assert project("stop", "stoker", seconds=90).returncode == 0
    assert docker.inspect(stoker)["State"]["ExitCode"] == 0
