"""The exporter writes programs that answer as the model does, or nothing and the reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
import torch.utils._pytree as pytree

from compiler.export.exporter import main
from compiler.program.archive import load_program
from deploy.export_demo import origin
from tests import models

MODELS = """
import torch
from torch import nn
from torch.export import Dim

BATCH = Dim("batch", min=1, max=64)


class Branch(nn.Module):
    def forward(self, x):
        if x.shape[0] > 8:  # line: branch
            return x
        return -x


class Fixed(nn.Module):
    def forward(self, x):
        return (x + 1).view(2, 4)  # line: fixed


class DataDependent(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # line: data
            return x
        return -x


class Numpy(nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy() + 1)  # line: numpy


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x):
        self.calls += 1  # line: state
        return x + self.calls


class WritesInput(nn.Module):
    def forward(self, x):
        x.add_(1)  # line: input
        return x * 2


class Complex(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x)  # line: complex


class Text(nn.Module):
    def forward(self, x):
        return {"a": x * 2, "b": "text"}


class Random(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Raises(nn.Module):
    def forward(self, x):
        raise ValueError("no such mode")  # line: raises


class Nested(nn.Module):
    def forward(self, x, pair, *, Scale):
        return {"a": x + pair[0], "b": [pair[1] * Scale]}


def _of(module):
    return lambda: (module(), (torch.ones(2, 4),))


branch, fixed, data, numpy, state = map(_of, (Branch, Fixed, DataDependent, Numpy, Stateful))
input, complex, text, random, raises = map(_of, (WritesInput, Complex, Text, Random, Raises))


def linear():
    return nn.Linear(4, 2), (torch.ones(1, 4),)


def nested():
    t = torch.ones(2, 4)
    shape = {0: BATCH}
    shapes = {"x": shape, "pair": [shape, shape], "Scale": shape}
    return Nested(), (t, [t, t]), {"Scale": t}, shapes


class Levels(nn.Module):
    def forward(self, image, mask, by, pair):
        small = nn.functional.avg_pool2d(image, 8) * by
        return {"small": small if mask is None else small * mask, "sum": pair + small.flatten(1).repeat(2, 1)[:, :1]}


def levels():
    image, pair = torch.randn(2, 3, 16, 16), torch.randn(4, 1)
    high = Dim("high", max=6)
    return Levels(), (image, None, 0.5, pair), {}, ({0: BATCH, 2: 8 * high, 3: 8 * high}, None, None, {0: 2 * BATCH})


def ragged():
    return nn.Identity(), (torch.ones(2, 4), torch.ones(3))


def number():
    return 3


def crash():
    raise KeyError("weights")  # line: crash
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `zoo` that can be imported, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "zoo", raising=False)
    path = tmp_path / "zoo.py"
    path.write_text(MODELS)
    return path


def line_of(path: Path, mark: str) -> int:
    return next(
        i for i, text in enumerate(path.read_text().splitlines(), 1) if text.endswith(f"# line: {mark}")
    )


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("branch", "it needs x.0 <= 8"),
        ("fixed", "it needs Eq(4*x.0, 8)"),
        ("data", "depend on the values of a tensor"),
        ("numpy", ".numpy() is not supported"),
        ("state", "writes to its buffer calls"),
        ("input", "writes to its input x"),
        ("complex", "complex64, which requests can't carry"),
        ("raises", "ValueError: no such mode"),
        ("crash", "raised KeyError"),
    ],
)
def test_refusals_name_the_line(
    function: str, reason: str, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([f"zoo:{function}", "--output", "models/zoo/1"]) == 1
    out, err = capfd.readouterr()
    first, second = err.splitlines()
    assert first.startswith(f"zoo:{function}: ") and reason in first
    assert second == f"  caused by {source}:{line_of(source, function)}"
    assert out == ""
    assert not Path("models").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["zoo:text"], "output 1 is str, expected a tensor"),
        (["zoo:random"], "output 0 of the exported program is not the model's"),
        (["zoo:number"], "returned int, expected (module, args)"),
        (["zoo:ragged"], "axis 0 of the examples is not one batch"),
        (["zoo:nothing"], "has no attribute 'nothing'"),
        (["missing_module:f"], "No module named 'missing_module'"),
        (["zoo"], "expected module:function"),
        (["transformers:."], "it has no config.json"),
        (["torchvision:no_such_net"], "Unknown model no_such_net"),
        (["timm:no_such_net"], "Unknown model"),
        (["zoo:linear", "--output", "models/zoo/first"], "with a number as version"),
        (["zoo:linear", "--weights", "zoo.py"], "not a state dict"),
    ],
)
def test_refusals_without_a_line(
    arguments: list[str], reason: str, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    err = capfd.readouterr().err
    assert reason in err and "Traceback" not in err
    assert len(err.splitlines()) == 1
    assert not Path("models").exists()


def test_traceback_on_demand(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo:numpy", "--traceback"]) == 1
    assert "Traceback" in capfd.readouterr().err


def test_a_callable_with_one_example_row(source: Path) -> None:
    assert main(["zoo:linear", "--max-batch", "16", "--batch-buckets", "1,4,32"]) == 0
    path = Path("models/linear/1/model.pt2")
    module = load_program(path).module()
    for rows in (1, 2, 16):
        assert module(torch.ones(rows, 4)).shape == (rows, 2)
    text = Path("models/linear/model.yaml").read_text()
    assert "max_batch_size: 4\n" in text
    assert "  batch: {axis: input.0}                     # 1 to 16\n" in text
    assert "buckets:\n  batch: [1, 4]\n" in text


def test_without_a_batch(source: Path) -> None:
    assert main(["zoo:linear", "--max-batch", "0"]) == 0
    assert load_program("models/linear/1/model.pt2").range_constraints == {}
    text = Path("models/linear/model.yaml").read_text()
    assert "buckets" not in text and "max_batch_size" not in text


def test_nested_arguments(source: Path) -> None:
    assert main(["zoo:nested"]) == 0
    program = load_program("models/nested/1/model.pt2")
    assert program.module_call_graph[0].signature.forward_arg_names == ["x", "pair", "Scale"]
    t = torch.full((3, 4), 2.0)
    result = program.module()(t, [t, t], Scale=t)
    torch.testing.assert_close(result, {"a": t + t, "b": [t * t]})


def test_sizes_that_follow_from_others_and_what_is_no_tensor(source: Path) -> None:
    assert main(["zoo:levels"]) == 0
    program = load_program("models/levels/1/model.pt2")
    image, pair = torch.randn(1, 3, 24, 24), torch.randn(2, 1)
    result = program.module(check_guards=False)(image, (), (), pair)
    torch.testing.assert_close(result["small"], torch.nn.functional.avg_pool2d(image, 8) * 0.5)
    text = Path("models/levels/model.yaml").read_text()
    assert "  batch: {axis: image.0}" in text and "  high:  {axis: image.2}" in text
    assert "mask:" not in text and "by:" not in text
    assert "max_batch_size" not in text  # two rows of `pair` go with one image: requests can't be put together


def test_the_archive_is_plain(source: Path) -> None:
    """No pickle, no path of the machine that exported it, and stock torch reads it."""
    assert main(["zoo:linear"]) == 0
    path = Path("models/linear/1/model.pt2")
    with zipfile.ZipFile(path) as archive:
        names = {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}
    assert names["data/sample_inputs/model.pt"] == b""
    graph = json.loads(names["models/model.json"])["graph_module"]["graph"]
    (linear,) = (node["metadata"] for node in graph["nodes"] if "linear" in node["target"])
    assert linear["stack_trace"].startswith('  File "torch/nn/modules/linear.py", line ')
    assert str(Path.cwd()).encode() not in path.read_bytes()
    x = torch.randn(2, 4)
    torch.testing.assert_close(torch.export.load(path).module()(x), load_program(path).module()(x))


def test_an_existing_model_is_replaced_only_when_forced(
    source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["zoo:linear"]) == 0
    path = Path("models/linear/1/model.pt2")
    Path("models/linear/model.yaml").write_text("threads: 1\n")
    before = path.read_bytes()
    assert main(["zoo:linear"]) == 1
    assert "exists" in capfd.readouterr().err
    assert main(["zoo:fixed", "--output", "models/linear/1", "--force"]) == 1
    assert path.read_bytes() == before
    assert main(["zoo:linear", "--force"]) == 0
    assert Path("models/linear/model.yaml").read_text() == "threads: 1\n"
    assert sorted(p.name for p in Path("models/linear/1").iterdir()) == ["model.pt2"]


def test_the_program_appears_last_and_only_with_its_yaml(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[str] = []
    replace = os.replace

    def last(written: Path, path: Path) -> None:
        put.append(path.name)
        replace(written, path)

    monkeypatch.setattr(os, "replace", last)
    assert main(["zoo:linear"]) == 0
    assert put == ["model.yaml", "model.pt2"]

    def full(written: Path, path: Path) -> None:
        if path.name == "model.pt2":
            raise OSError("no space left")
        replace(written, path)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        main(["zoo:linear", "--name", "other"])
    assert not Path("models/other").exists()


def test_weights_are_loaded(source: Path) -> None:
    state = {"weight": torch.full((2, 4), 3.0), "bias": torch.zeros(2)}
    torch.save(state, "weights.pt")
    assert main(["zoo:linear", "--weights", "weights.pt"]) == 0
    loaded = load_program("models/linear/1/model.pt2").state_dict
    torch.testing.assert_close(loaded["weight"].data, state["weight"])


def test_weights_that_do_not_fit(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torch.save({"kernel": torch.zeros(2)}, "weights.pt")
    assert main(["zoo:linear", "--weights", "weights.pt"]) == 1
    assert "does not fit the model: Missing key(s)" in capfd.readouterr().err


SMALL = {
    "vocab_size": 100,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}


BODY = {key: SMALL[key] for key in SMALL.keys() - {"vocab_size", "max_position_embeddings"}}
IMAGE = {"image_size": 32, "patch_size": 16}
WAVE = {
    "conv_dim": (8, 8, 8),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
WHISPER = {"vocab_size": 100, "d_model": 16, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 10,
           "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}  # fmt: skip
for half in ("encoder", "decoder"):
    WHISPER |= {f"{half}_layers": 1, f"{half}_attention_heads": 2, f"{half}_ffn_dim": 32}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of small transformers models with random weights."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("transformers")
    bert, roberta = transformers.BertConfig(**SMALL), transformers.RobertaConfig(**SMALL)
    torch.manual_seed(0)
    for name, model in {
        "plain": transformers.BertModel(bert),
        "sentence": transformers.BertModel(bert),
        "dense": transformers.BertModel(bert),
        "pairs": transformers.BertForSequenceClassification(bert),
        "roberta": transformers.RobertaModel(roberta),
        "t5": transformers.T5Model(transformers.T5Config(vocab_size=10, d_model=8, d_ff=8, num_layers=1)),
        "vit": transformers.ViTForImageClassification(transformers.ViTConfig(**BODY, **IMAGE, num_labels=7)),
        "clip": transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config={**SMALL, "bos_token_id": 1, "eos_token_id": 2},
                vision_config={**BODY, **IMAGE},
                projection_dim=8,
            )
        ),
        "speech": transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**SMALL, **WAVE)),
        "whisper": transformers.WhisperModel(transformers.WhisperConfig(**WHISPER)),
        "spectrogram": transformers.ASTForAudioClassification(
            transformers.ASTConfig(**BODY, max_length=32, num_mel_bins=24)
        ),
    }.items():
        model.save_pretrained(folder / name)
    for name, last in (("sentence", "Normalize"), ("dense", "Dense")):
        kinds = ["Transformer", "Pooling", last]
        modules = [{"path": p, "type": f"m.{k}"} for p, k in zip(("", "1_Pooling", "2"), kinds, strict=True)]
        (folder / name / "modules.json").write_text(json.dumps(modules))
        (folder / name / "1_Pooling").mkdir()
        (folder / name / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return folder


def exported(zoo: Path, name: str, tmp_path: Path, *options: str) -> torch.export.ExportedProgram:
    output = tmp_path / "models" / name / "1"
    assert main([f"transformers:{zoo / name}", "--output", str(output), *options]) == 0
    return load_program(output / "model.pt2")


def test_a_sentence_model(zoo: Path, tmp_path: Path) -> None:
    """Mean over the tokens that count, of length one, whatever the padding."""
    program = exported(zoo, "sentence", tmp_path, "--max-length", "32", "--length-buckets", "8,32,64")
    module = program.module()
    ids = torch.randint(0, 100, (2, 6))
    out = module(ids, torch.ones_like(ids))
    expected = torch.nn.functional.normalize(out["token_embeddings"].mean(1))
    torch.testing.assert_close(out["sentence_embedding"], expected)
    padded = torch.nn.functional.pad(ids, (0, 26)), torch.nn.functional.pad(torch.ones_like(ids), (0, 26))
    torch.testing.assert_close(module(*padded)["sentence_embedding"], expected, rtol=1e-4, atol=1e-5)
    text = (tmp_path / "models/sentence/model.yaml").read_text()
    assert "tokens: {axis: input_ids.1, padding: true} # 1 to 32\n" in text
    assert "input_ids:      {pad_value: 0, range: [0, 99]}\n" in text
    assert "tokens: [8, 32]\n" in text
    assert str(zoo) not in text


def test_an_encoder_without_pooling(zoo: Path, tmp_path: Path) -> None:
    ids = torch.randint(0, 100, (3, 5))
    out = exported(zoo, "plain", tmp_path).module()(ids, torch.ones_like(ids))
    assert {k: v.shape for k, v in out.items()} == {"last_hidden_state": (3, 5, 16)}


def test_a_classifier_of_pairs(zoo: Path, tmp_path: Path) -> None:
    ids = torch.randint(0, 100, (3, 5))
    out = exported(zoo, "pairs", tmp_path).module()(ids, torch.ones_like(ids), torch.zeros_like(ids))
    assert {k: v.shape for k, v in out.items()} == {"logits": (3, 2)}


def test_positions_that_are_offset_shorten_the_input(zoo: Path, tmp_path: Path) -> None:
    program = exported(zoo, "roberta", tmp_path)
    assert sorted(int(r.upper) for r in program.range_constraints.values()) == [38, 64]
    ids = torch.randint(2, 100, (1, 38))
    assert program.module()(ids, torch.ones_like(ids))["last_hidden_state"].shape == (1, 38, 16)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("t5", [], "--task encoder exports its encoder"),
        ("plain", ["--task", "encoder"], "bert is no encoder-decoder"),
        ("clip", [], "--task text-embedding or --task image-embedding"),
        ("plain", ["--task", "image-embedding"], "no model of both texts and images"),
        ("speech", ["--max-length", "40"], "the model takes at least 80 samples"),
        ("dense", [], "modules.json: Dense"),
        ("plain", ["--task", "embedding"], "needs modules.json"),
        ("plain", ["--max-length", "100"], "takes at most 40 tokens"),
    ],
)
def test_transformers_that_are_refused(
    name: str, options: list[str], reason: str, zoo: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([f"transformers:{zoo / name}", "--output", str(tmp_path / "m/1"), *options]) == 1
    assert reason in capfd.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("name", "options", "inputs", "outputs"),
    [
        ("t5", ["--task", "encoder"], {"ids": (3, 5), "mask": (3, 5)}, {"last_hidden_state": (3, 5, 8)}),
        ("vit", [], {"image": (3, 3, 32, 32)}, {"logits": (3, 7)}),
        ("clip", ["--task", "image-embedding"], {"image": (3, 3, 32, 32)}, {"image_embedding": (3, 8)}),
        ("clip", ["--task", "text-embedding"], {"ids": (3, 5), "mask": (3, 5)}, {"text_embedding": (3, 8)}),
        ("speech", [], {"wave": (3, 800)}, {"logits": (3, 39, 100)}),
        ("whisper", ["--task", "encoder"], {"mel": (3, 8, 40)}, {"last_hidden_state": (3, 20, 16)}),
        ("spectrogram", [], {"mel": (3, 32, 24)}, {"logits": (3, 2)}),
        ("plain", ["--dtype", "bfloat16"], {"ids": (3, 5), "mask": (3, 5)}, {"last_hidden_state": (3, 5, 16)}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_what_transformers_models_take(
    name: str,
    options: list[str],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    zoo: Path,
    tmp_path: Path,
) -> None:
    """The exporter has compared the answers with the model's; here is what goes in and comes out."""
    program = exported(zoo, name, tmp_path, *options)
    given = [
        torch.ones(shape, dtype=torch.int64) if kind in ("ids", "mask") else torch.randn(shape)
        for kind, shape in inputs.items()
    ]
    found = program.module(check_guards=False)(*given)
    assert {key: tuple(value.shape) for key, value in found.items()} == outputs
    wanted = torch.bfloat16 if "bfloat16" in options else torch.float32
    assert {value.dtype for value in found.values()} == {wanted}


@pytest.mark.slow
def test_a_detector(tmp_path: Path) -> None:
    """As many boxes as there are, of which torchvision's own says the same."""
    models_of = pytest.importorskip("torchvision.models.detection")
    torch.manual_seed(0)
    detector = models_of.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).eval()
    with torch.no_grad():  # as made, it scores all boxes the same: numbers die out on the way
        for part in detector.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.momentum = 1.0
        features = detector.train().backbone(torch.rand(4, 3, 160, 160))
        detector.head(list(features.values()))
        for head in detector.eval().head.classification_head.module_list:
            head[-1].weight.normal_(std=0.02)
    torch.save(detector.state_dict(), tmp_path / "weights.pt")
    output, size = tmp_path / "models/net/1", ["--image-size", "160"]
    source = "torchvision:ssdlite320_mobilenet_v3_large"
    assert main([source, "--output", str(output), "--weights", str(tmp_path / "weights.pt"), *size]) == 0
    image = torch.rand(3, 160, 160)
    found = load_program(output / "model.pt2").module(check_guards=False)(image)
    torch.testing.assert_close(found, detector([image])[0])
    assert len(found["boxes"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torchvision:squeezenet1_1", "timm:vit_tiny_patch16_224"])
def test_image_models_by_name(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name.partition(":")[0])
    output = tmp_path / "models/net/1"
    assert main([name, "--output", str(output), "--max-batch", "4"]) == 0
    out = load_program(output / "model.pt2").module()(torch.randn(3, 3, 224, 224))
    assert {k: v.shape for k, v in out.items()} == {"logits": (3, 1000)}


def test_the_command(source: Path) -> None:
    """As a user calls it; a module beside the working folder is found."""
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-m", "compiler.export", "zoo:linear"],
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0].startswith("models/linear/1/model.pt2: ")


@pytest.mark.parametrize("name", models.MODELS)
def test_the_models_of_the_integration_tests(name: str, tmp_path: Path) -> None:
    """They are what their description says, as a server would load them."""
    model = models.MODELS[name]()
    path = models.write(name, tmp_path)
    assert path.stat().st_size < 10 << 20
    torch.manual_seed(0)
    module = models.MODELS[name]().module.eval()
    program = load_program(path)
    in_plain_containers, _ = program.call_spec.in_spec.unflatten(pytree.tree_leaves(model.args))
    answers = []
    for form, args in ((program.module(), in_plain_containers), (module, model.args)):
        torch.manual_seed(1)  # "random" draws from torch's generator
        answers.append(pytree.tree_leaves(form(*args)))
    torch.testing.assert_close(*answers, equal_nan=True)


def test_the_demo_is_exported_again_when_the_exporter_changes(tmp_path: Path) -> None:
    """Whichever of our modules it is that the exporter imports."""
    root = Path(__file__).resolve().parents[2]
    list_modules = "import sys, compiler.export.exporter\nfor m in sys.modules: print(m)"
    loaded = subprocess.run(
        [sys.executable, "-c", list_modules], cwd=root, capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    files = [Path(*name.split(".")).with_suffix(".py") for name in loaded if name.startswith("compiler.")]
    modules = [file for file in files if (root / file).is_file()]
    assert len(modules) > 8
    shutil.copytree(root / "compiler", tmp_path / "compiler")
    before = origin(tmp_path)
    for module in modules:
        with (tmp_path / module).open("a") as file:
            file.write("# changed\n")
        assert origin(tmp_path) != before, module
        before = origin(tmp_path)
