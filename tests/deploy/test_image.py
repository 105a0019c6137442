"""Dockerfile: the images are small, hold what they should, and behave as containers are expected to.

They are built for real; the first build takes about ten minutes, of which a later one on the same machine repeats
seconds. A cache is filled by the compiling image and served by the others.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from torch import Tensor, nn

from tests.deploy.containers import IMAGES, USER, Container, Docker, member, wait_health
from tests.integration.daemon import eventually, write_yaml
from tests.integration.test_stop import REQUESTS, Requests, slow, wait_until_busy  # noqa: F401
from tests.metrics_reference_test import REPOSITORY

pytestmark = pytest.mark.slow

SERVING = ["stoker:latest", "stoker:minimal"]
MB = 10**6
MOST_BYTES = {"stoker:latest": 480 * MB, "stoker:minimal": 400 * MB, "stoker:cuda": 3600 * MB}
MOST_PACKED = 140 * MB
MOST_PUSHED = 30 * MB
CPUS = "2"


class _Chain(nn.Module):
    """So many tiny operators that one loop is surely faster."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = x
        for _ in range(60):
            y = torch.tanh(y * 0.5 + x)
        return {"y": y}


class _Hungry(nn.Module):
    """Makes parts of 16 MB one after the other and holds them all."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        parts = [torch.exp(x[:, :, None] * k - x[:, None, :]) for k in range(60)]
        y = parts[0]
        for part in parts[1:]:
            y = y + part
        return {"y": y.sum((1, 2))}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that any user may read."""
    root = tmp_path_factory.mktemp("image") / "models"
    (root / "chain/1").mkdir(parents=True)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(_Chain(), (torch.zeros(2, 64),), dynamic_shapes=({0: batch},))
    torch.export.save(program, root / "chain/1/model.pt2")
    write_yaml(root / "chain", max_batch_size=8, buckets={"batch": [1, 8]})
    return readable(root)


def readable(root: Path) -> Path:
    """For the containers' users too: pytest's own folders are for nobody else."""
    for folder in [root, *root.parents]:
        if "pytest-of-" in str(folder):
            folder.chmod(folder.stat().st_mode | 0o055)
    return root


def ask(server: Container, rows: int) -> None:
    """A request of that many rows, and its right answer."""
    x = np.random.default_rng(rows).standard_normal((rows, 64), dtype=np.float32)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    with server.client() as client:
        answer = client.infer("chain", [given]).as_numpy("y")
    np.testing.assert_allclose(answer, _Chain()(torch.from_numpy(x))["y"].numpy(), atol=1e-4)


def expect_compiled_answers(server: Container) -> None:
    """Both buckets answer, from the cache alone."""
    for rows in (1, 5):
        ask(server, rows)
    assert server.metric("stoker_tier_requests_total", tier="aot") == 2
    assert server.metric("stoker_tier_requests_total", tier="eager") == 0
    assert server.metric("stoker_compile_seconds_count") == 0


@pytest.fixture(scope="module")
def start(docker: Docker, images: None) -> Callable[..., Container]:
    """start("stoker:latest", models, "--frozen", run=[...]) makes a Container for a with statement."""

    def make(image: str, repository: Path, *stokerd: str, run: list[str] | None = None) -> Container:
        given = ["--cpus", CPUS, "-v", f"{repository}:/models:ro", *(run or [])]
        return Container(docker, image, given, ["--model-repository=/models", *stokerd])

    return make


@pytest.fixture(scope="module")
def warm_volume(docker: Docker, images: None, models: Path) -> Iterator[str]:
    """A volume that the compiling image has filled for `models`."""
    volume = docker("volume", "create")
    command = ["run", "--rm", "--network=none", "--cpus", CPUS, "--read-only", "--tmpfs=/tmp:exec", "--cap-drop=ALL"]
    command += ["-v", f"{models}:/models:ro", "-v", f"{volume}:/var/cache/stoker", "stoker:compile"]
    done = docker.run(*command, seconds=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^2 compiled, 0 refused on evidence, 0 without an artifact, 0 versions failed", done.stdout, re.M)
    yield volume
    docker("volume", "rm", volume)


def expect_size(docker: Docker, image: str) -> None:
    layers = docker.layers(image)
    sizes = [(round(layer.bytes / MB, 1), round(layer.zstd_bytes / MB, 1)) for layer in layers]
    print(f"{image}: {docker.inspect(image)['Size'] / MB:.1f} MB, layers (MB, zstd MB): {sizes}")
    assert docker.inspect(image)["Size"] <= MOST_BYTES[image], sizes
    assert sum(layer.zstd_bytes for layer in layers) <= MOST_PACKED, sizes


@pytest.mark.parametrize("image", SERVING)
def test_size(docker: Docker, images: None, image: str) -> None:
    expect_size(docker, image)


@pytest.mark.parametrize("image", IMAGES)
def test_what_the_image_says(docker: Docker, images: None, image: str) -> None:
    config = docker.inspect(image)["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["StopSignal"] == "SIGTERM"
    version = docker("run", "--rm", "--network=none", image, "--version")
    labels = config["Labels"]
    assert labels["org.opencontainers.image.version"] in version.split()
    assert {"title", "description", "revision", "created"} <= {name.split(".")[-1] for name in labels}
    if image != "stoker:compile":
        assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/stokerctl", "health"]


PROGRAM = re.compile(r"(usr/)?(local/)?s?bin/[^/]+$")
COMPILER = re.compile(
    r"/(python|pip|g\+\+|gcc|c\+\+|cc|clang|cpp|as|ld|make|cmake|curl|wget)[\d.-]*$|x86_64-linux-gnu-"
)


@pytest.mark.parametrize("image", SERVING)
def test_what_is_not_in_it(docker: Docker, images: None, image: str) -> None:
    with docker.files(image) as archive:
        names = archive.getnames()
        status = "var/lib/dpkg/status"
        packages = member(archive, status).read().decode() if status in names else ""
    programs = [name for name in names if PROGRAM.match(name)]
    assert not [name for name in programs if COMPILER.search(f"/{name}")]
    assert not [name for name in names if re.search(r"\.pyc?$|/cc1plus$|/libpython|\.a$|\.h$", name)]
    libraries = sorted(name.split("/")[-1] for name in names if name.startswith("usr/lib/stoker/"))
    assert libraries == [
        "libc10.so", "libcudart.so.13", "libcupti.so.13", "libgomp.so.1", "libstoker_openmp.so", "libtorch_cpu.so",
    ]  # fmt: skip
    assert not [name for name in names if re.search(r"/libtorch(_cuda|_python)?\.so|/libcu(blas|dnn)", name)]
    if image == "stoker:latest":
        # For scanners.
        assert re.search(r"^Package: libgrpc\+\+", packages, re.M)
    else:
        assert sorted(programs) == ["usr/bin/stokerctl", "usr/bin/stokerd"]


def test_the_check_sees_a_compiler(docker: Docker, images: None) -> None:
    with docker.files("stoker:compile") as archive:
        programs = [name for name in archive.getnames() if PROGRAM.match(name)]
    found = {name.split("/")[-1] for name in programs if COMPILER.search(f"/{name}")}
    assert {"g++", "python3", "ld", "make"} <= found


@pytest.mark.parametrize("image", SERVING)
def test_from_warm_to_frozen(start: Callable[..., Container], models: Path, warm_volume: str, image: str) -> None:
    """In the image from scratch there isn't a program that could be called, so nothing is."""
    run = ["-v", f"{warm_volume}:/var/cache/stoker"]
    with start(image, models, "--frozen", "--require-cache", run=run) as server:
        server.wait_ready(60)
        expect_compiled_answers(server)
        wait_health(server, "healthy")
        assert server.stop() == 0
        assert "stopped" in server.log()


def test_the_cache_may_be_read_only(start: Callable[..., Container], models: Path, warm_volume: str) -> None:
    """Then no file system is left that the server could write to."""
    run = ["-v", f"{warm_volume}:/var/cache/stoker:ro"]
    with start("stoker:latest", models, "--frozen", "--require-cache", run=run) as server:
        server.wait_ready(60)
        expect_compiled_answers(server)


def test_any_user_serves(start: Callable[..., Container], models: Path) -> None:
    run = ["--user=1010:0", "--tmpfs=/var/cache/stoker:uid=1010,mode=700"]
    with start("stoker:latest", models, "--frozen", run=run) as server:
        server.wait_ready(60)
        ask(server, 1)
        assert server.metric("stoker_tier_requests_total", tier="eager") == 1


def test_the_process_is_confined(docker: Docker, start: Callable[..., Container], models: Path) -> None:
    with start("stoker:latest", models, "--frozen", run=["--tmpfs=/var/cache/stoker:uid=10001,mode=700"]) as server:
        server.wait_ready(60)
        status = Path(f"/proc/{server.state()['Pid']}/status").read_text()
        assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.M)  # process 1 itself, not a shell's child
        assert re.search(rf"^Uid:\s+{USER}\s+{USER}", status, re.M)
        assert re.search(r"^CapEff:\s+0+$", status, re.M)
        refused = docker.run("exec", server.id, "sh", "-c", "echo > /usr/bin/x")
        assert refused.returncode != 0 and "Read-only file system" in refused.stderr


def zombies(parent: int) -> int:
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = stat.read_text().rpartition(") ")[2].split()[:2]
        except OSError:
            continue
        count += state == "Z" and int(ppid) == parent
    return count


def test_process_one_reaps_what_others_leave(docker: Docker, start: Callable[..., Container], models: Path) -> None:
    with start("stoker:latest", models, "--frozen", run=["--tmpfs=/var/cache/stoker:uid=10001,mode=700"]) as server:
        server.wait_ready(60)
        pid = server.state()["Pid"]
        # Its parent ends first, so that process 1 inherits it.
        docker("exec", server.id, "sh", "-c", "sleep 1 &")
        eventually(lambda: zombies(pid) == 1, "the orphan is dead and inherited", 20)
        eventually(lambda: zombies(pid) == 0, "the orphan is reaped", 20)
        assert server.stop() == 0


def test_stop_answers_what_was_accepted(start: Callable[..., Container], slow: Path) -> None:  # noqa: F811
    run = ["--tmpfs=/var/cache/stoker:uid=10001,mode=700"]
    with start("stoker:latest", readable(slow), "--frozen", run=run) as server, server.client() as client:
        server.wait_ready(60)
        requests = Requests(client)
        wait_until_busy(server)
        codes: list[int] = []
        stopper = threading.Thread(target=lambda: codes.append(server.stop()))
        stopper.start()
        assert requests.wait() == (REQUESTS, [])
        stopper.join()
        assert codes == [0]
        assert re.search(r"slow:1: draining -> unloaded[\s\S]*stopped\n", server.log())


def test_a_killed_server_comes_back_warm(
    docker: Docker, start: Callable[..., Container], models: Path, warm_volume: str
) -> None:
    run = ["-v", f"{warm_volume}:/var/cache/stoker", "--restart=on-failure"]
    with start("stoker:latest", models, "--frozen", "--require-cache", run=run) as server:
        server.wait_ready(60)
        began = time.monotonic()
        server.kill()
        eventually(lambda: server.log().count("listening: gRPC port") == 2, "it listens again", 30)
        server.find_ports()
        server.wait_ready(30)
        assert time.monotonic() - began < 30
        assert docker.inspect(server.id)["RestartCount"] == 1
        expect_compiled_answers(server)


def test_health_follows_readiness(start: Callable[..., Container], models: Path) -> None:
    """A frozen server that lacks its cache lives, and is not ready."""
    run = ["--tmpfs=/var/cache/stoker:uid=10001,mode=700", "--health-interval=1s", "--health-start-period=1s"]
    with start("stoker:latest", models, "--frozen", "--require-cache", run=run) as server:
        wait_health(server, "unhealthy")
        assert server.ctl("health").returncode == 1
        assert server.ctl("health", "liveness").stdout == "serving\n"
        assert "chain" in server.log() and "cache" in server.log()


def test_a_start_that_cannot_work_says_why(docker: Docker, images: None) -> None:
    def end(*arguments: str) -> tuple[int, str]:
        done = docker.run("run", "--rm", "--network=none", "--read-only", *arguments)
        return done.returncode, done.stderr

    code, words = end("stoker:latest", "--frozen")
    assert code == 2 and words == "stokerd: --model-repository is required (see stokerd --help)\n"
    code, words = end("stoker:latest", "--frozen", "--model-repository=/none")
    assert code == 2 and "/none" in words and words.count("\n") == 1
    code, words = end("--user=1010", "stoker:latest", "--frozen", "--model-repository=/root")
    assert code != 0 and "/root" in words and words.count("\n") == 1


def test_out_of_memory_has_last_words(docker: Docker, images: None, tmp_path: Path) -> None:
    (tmp_path / "hungry/1").mkdir(parents=True)
    program = torch.export.export(_Hungry(), (torch.zeros(1, 2048),))
    torch.export.save(program, tmp_path / "hungry/1/model.pt2")
    limits = ["--memory=500m", "--memory-swap=500m", "--read-only", "--network=none"]
    done = docker.run(
        *("run", "--rm", *limits, "-v", f"{readable(tmp_path)}:/models:ro", "stoker:latest"),
        *("--frozen", "--model-repository=/models"),
    )
    assert done.returncode == 137, done.stderr
    last = done.stderr.splitlines()[-1]
    assert re.search(r"memory is nearly out: 0\.4\d of 0\.49 GiB are in use.*\(exit code 137\)\. Raise the limit", last)


def test_without_a_volume_it_serves_eager_and_says_so(start: Callable[..., Container], models: Path) -> None:
    with start("stoker:latest", models, "--frozen") as server:
        server.wait_ready(60)
        ask(server, 1)
        assert server.metric("stoker_tier_requests_total", tier="eager") == 1
        assert server.metric("stoker_cache_writable") == 0
        assert "/var/cache/stoker/kernels" in server.log() and "Read-only file system" in server.log()


# Beside those of the other images.
CUDA_LIBRARIES = {
    "libstoker_cuda.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libc10_cuda.so",
    "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcudnn_adv.so.9", "libcudnn_cnn.so.9",
    "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9", "libcudnn_graph.so.9",
    "libcudnn_heuristic.so.9", "libcudnn_ops.so.9", "libcufft.so.12", "libcufile.so.0", "libcurand.so.10",
    "libcusolver.so.12", "libcusparse.so.12", "libcusparseLt.so.0", "libnccl.so.2", "libnvJitLink.so.13",
    "libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "libnvshmem_host.so.3",
}  # fmt: skip


def test_what_the_image_for_gpus_adds(docker: Docker, images: None) -> None:
    def files(image: str) -> set[str]:
        script = "find / -xdev ! -path '/etc/host*' ! -path '/proc*' ! -path '/sys*' ! -path '/dev*'"
        run = ["run", "--rm", "--network=none", "--user=0", "--entrypoint=sh", image, "-c", script]
        return set(docker(*run).splitlines())

    assert files("stoker:cuda") ^ files("stoker:latest") == {f"/usr/lib/stoker/{name}" for name in CUDA_LIBRARIES}
    libraries = docker("run", "--rm", "--entrypoint=sh", "stoker:cuda", "-c", "ldd /usr/lib/stoker/*.so*")
    assert "libtorch_cuda.so => /usr/lib/stoker/" in libraries and "not found" not in libraries
    environment = docker.inspect("stoker:cuda")["Config"]["Env"]
    assert {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"} <= set(environment)
    size = docker.inspect("stoker:cuda")["Size"]
    print(f"stoker:cuda: {size / MB:.1f} MB")
    assert size <= MOST_BYTES["stoker:cuda"]
    # The libraries lie below the programs, which change more often, and all below those is shared.
    below, above = (docker.inspect(image)["RootFS"]["Layers"] for image in ("stoker:latest", "stoker:cuda"))
    assert above[: len(below) - 1] == below[:-1] and above[-2] == below[-1] and len(above) == len(below) + 2


def with_one_for_a_gpu(models: Path, root: Path) -> Path:
    """The repository with its model twice: on the CPU as before, and as `gpu`."""
    shutil.copytree(models, root)
    shutil.copytree(models / "chain", root / "gpu")
    write_yaml(root / "gpu", device="cuda:auto")
    return readable(root)


NO_DRIVER = r"error gpu:1: loading -> failed: device cuda:auto was asked for: no GPU can be used: .* no NVIDIA driver"


def test_without_a_gpu_the_image_for_gpus_serves_on_the_cpu(
    docker: Docker, start: Callable[..., Container], models: Path, warm_volume: str, tmp_path: Path
) -> None:
    repository = with_one_for_a_gpu(models, tmp_path / "models")
    with start("stoker:cuda", repository, "--frozen", run=["-v", f"{warm_volume}:/var/cache/stoker"]) as server:
        server.wait_ready(60)
        expect_compiled_answers(server)
        assert len(re.findall(NO_DRIVER, server.log())) == 1, server.log()
        assert server.stop() == 0


def test_without_the_libraries_a_model_for_a_gpu_says_where_they_are(
    start: Callable[..., Container], models: Path, tmp_path: Path
) -> None:
    repository = with_one_for_a_gpu(models, tmp_path / "models")
    run = ["--tmpfs=/var/cache/stoker:uid=10001,mode=700"]
    with start("stoker:latest", repository, "--frozen", run=run) as server:
        server.wait_ready(60)
        ask(server, 1)
        assert re.search(r"error gpu:1: .*/libstoker_cuda.so isn't there; --cuda-library says", server.log())


def test_the_compiling_image_has_what_a_gpu_needs(docker: Docker, images: None, models: Path, tmp_path: Path) -> None:
    """It opens CUDA's libraries and misses the driver alone; and it compiles for a GPU that is recorded."""
    run = ["run", "--rm", "--network=none", "--read-only", "--tmpfs=/tmp:exec", "--cap-drop=ALL"]
    repository = with_one_for_a_gpu(models, tmp_path / "models")
    shutil.rmtree(repository / "chain")
    mounts = ["--tmpfs=/var/cache/stoker:uid=10001,mode=700", "-v", f"{repository}:/models:ro"]
    warm = docker.run(*run, *mounts, "stoker:compile")
    assert warm.returncode != 0 and re.search(NO_DRIVER, warm.stderr), warm.stdout + warm.stderr
    shutil.copytree(REPOSITORY / "tests", tmp_path / "tests/tests")
    tests = ["-v", f"{readable(tmp_path / 'tests')}:/source:ro", "--workdir=/source", "--entrypoint=python"]
    asked = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/compiler/test_cuda.py", "-k", "is_built_and_opens"]
    assert "1 passed" in docker(*run, *tests, "stoker:compile", *asked, seconds=600)


def test_a_code_change_pushes_little(docker: Docker, images: None, tmp_path: Path) -> None:
    """The same sources with another log line: what a registry would not have yet."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, tmp_path / name)
    main = tmp_path / "server/main/main.cc"
    assert 'spdlog::info("stopped")' in main.read_text()
    main.write_text(main.read_text().replace('spdlog::info("stopped")', 'spdlog::info("has stopped")'))
    docker.build("stoker:changed", "serve", tmp_path)
    try:
        before = {layer.digest for layer in docker.layers("stoker:latest")}
        pushed = [layer for layer in docker.layers("stoker:changed") if layer.digest not in before]
    finally:
        docker("rmi", "stoker:changed")
    print(f"a code change pushes {sum(layer.zstd_bytes for layer in pushed) / MB:.1f} MB")
    assert sorted(name for layer in pushed for name in layer.files) == [
        "usr/bin/stokerctl", "usr/bin/stokerd", "usr/lib/stoker/libstoker_openmp.so",
    ]  # fmt: skip
    assert sum(layer.zstd_bytes for layer in pushed) < MOST_PUSHED


def files_of(docker: Docker, image: str) -> dict[str, tuple[int, int, str, str]]:
    """Mode, owner, link and digest by name."""
    with docker.files(image) as archive:
        return {
            each.name: (
                each.mode,
                each.uid,
                each.linkname,
                hashlib.file_digest(member(archive, each), "sha256").hexdigest() if each.isfile() else "",
            )
            for each in archive
        }


def test_two_builds_are_the_same(docker: Docker, images: None) -> None:
    """Nothing of the first build is used for the second; only the times of files may differ.

    Comes last: later builds go on from the second one's layers.
    """
    docker.build("stoker:again", "serve", REPOSITORY, "--no-cache")
    try:
        first, second = files_of(docker, "stoker:latest"), files_of(docker, "stoker:again")
    finally:
        docker("rmi", "stoker:again")
    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == set()
