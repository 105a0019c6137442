"""Nets for sequences, written out: recurrent, convolutional, and those that forecast."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from loadtest.coverage.program import B, Input, Program, floats, integers


class LstmTagger(nn.Module):
    """Two layers of both directions over embedded words; a tag for each."""

    def __init__(self, words: int = 1000, width: int = 64, tags: int = 17) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(words))[0])


class DeepAr(nn.Module):
    """A GRU over a series and what is known of each step; mean and deviation of the next value at every step."""

    def __init__(self, known: int = 4, width: int = 64) -> None:
        super().__init__()
        self.gru = nn.GRU(1 + known, width, 2, batch_first=True)
        self.mean, self.deviation = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, series: Tensor, known: Tensor) -> dict[str, Tensor]:
        scale = series.abs().mean(1, keepdim=True).clamp(min=1e-3)
        states, _ = self.gru(torch.cat(((series / scale)[..., None], known), 2))
        mean = self.mean(states)[..., 0] * scale
        return {"mean": mean, "deviation": F.softplus(self.deviation(states))[..., 0] * scale}


class NBeats(nn.Module):
    """Blocks that each explain a part of the past, take it away, and add what it means for the future."""

    def __init__(self, past: int = 64, future: int = 16, width: int = 128, blocks: int = 6) -> None:
        super().__init__()
        self.past = past
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(past, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                          nn.Linear(width, width), nn.ReLU(), nn.Linear(width, past + future))
            for _ in range(blocks)
        )  # fmt: skip
        self.register_buffer("zero", torch.zeros(future), persistent=False)

    def forward(self, series: Tensor) -> Tensor:
        forecast = self.zero.expand(series.shape[0], -1)
        for block in self.blocks:
            explained = block(series)
            series = series - explained[:, : self.past]
            forecast = forecast + explained[:, self.past :]
        return forecast


class Tcn(nn.Module):
    """Dilated causal convolutions, two to a residual block."""

    def __init__(self, features: int = 8, width: int = 64, levels: int = 5) -> None:
        super().__init__()
        self.enter = nn.Conv1d(features, width, 1)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, width, 3, dilation=2**level) for level in range(levels) for _ in range(2)
        )
        self.head = nn.Linear(width, 4)

    def forward(self, series: Tensor) -> Tensor:
        hidden = self.enter(series)
        for place in range(0, len(self.convolutions), 2):
            inner = hidden
            for convolution in list(self.convolutions)[place : place + 2]:
                inner = torch.relu(convolution(F.pad(inner, (2 * convolution.dilation[0], 0))))
            hidden = torch.relu(hidden + inner)
        return self.head(hidden[:, :, -1])


class WaveNet(nn.Module):
    """Gated dilated convolutions over coded samples, whose skips are added up; the next sample's logits at each."""

    def __init__(self, codes: int = 64, width: int = 32, layers: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(codes, width)
        self.gated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2 ** (i % 4)) for i in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, codes, 1))

    def forward(self, samples: Tensor) -> Tensor:
        hidden = self.embed(samples).transpose(1, 2)
        total = torch.zeros_like(hidden)
        for gated, skip in zip(self.gated, self.skips, strict=True):
            values, gates = gated(F.pad(hidden, (gated.dilation[0], 0))).chunk(2, 1)
            inner = skip(values.tanh() * gates.sigmoid())
            hidden, total = hidden + inner, total + inner
        return self.head(total)


class SelectiveScan(nn.Module):
    """A state space whose steps depend on the input, as Mamba has it, one step after the other."""

    def __init__(self, width: int = 64, states: int = 8) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.local = nn.Conv1d(width, width, 4, groups=width)
        self.parameters_of_step = nn.Linear(width, 1 + 2 * states)
        self.decay = nn.Parameter(torch.rand(width, states).log())
        self.bias, self.states = nn.Parameter(torch.zeros(width)), states

    def forward(self, tokens: Tensor) -> Tensor:
        inner, gate = self.enter(tokens).chunk(2, 2)
        inner = F.silu(self.local(F.pad(inner.transpose(1, 2), (3, 0)))).transpose(1, 2)
        step, write, read = self.parameters_of_step(inner).split([1, self.states, self.states], 2)
        step = F.softplus(step + self.bias)
        kept = torch.exp(step[..., None] * -self.decay.exp())
        written = (step * inner)[..., None] * write[:, :, None]
        state, outputs = torch.zeros_like(written[:, 0]), []
        for time in range(tokens.shape[1]):
            state = kept[:, time] * state + written[:, time]
            outputs.append((state * read[:, time, None]).sum(2))
        return self.leave(torch.stack(outputs, 1) * F.silu(gate))


class SpeechEncoder(nn.Module):
    """Frames of a wave, their spectrum by FFT, convolutions that shorten, a GRU of both directions, letters."""

    def __init__(self, window: int = 256, width: int = 64, letters: int = 29) -> None:
        super().__init__()
        self.window = window
        self.register_buffer("taper", torch.hann_window(window), persistent=False)
        self.convolutions = nn.Sequential(
            nn.Conv1d(window // 2 + 1, width, 5, 2, 2), nn.BatchNorm1d(width), nn.GELU(),
            nn.Conv1d(width, width, 5, 2, 2), nn.BatchNorm1d(width), nn.GELU(),
        )  # fmt: skip
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, letters)

    def forward(self, wave: Tensor) -> Tensor:
        frames = wave.unfold(1, self.window, self.window // 2) * self.taper
        spectrum = torch.log1p(torch.fft.rfft(frames).abs())
        states, _ = self.gru(self.convolutions(spectrum.transpose(1, 2)).transpose(1, 2))
        return self.head(states).log_softmax(2)


class WordCnn(nn.Module):
    """Convolutions over three, four and five words, the strongest answer of each, and a class."""

    def __init__(self, words: int = 5000, width: int = 64, filters: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, filters, size) for size in (3, 4, 5))
        self.head = nn.Linear(3 * filters, 5)

    def forward(self, words: Tensor) -> Tensor:
        embedded = self.embed(words).transpose(1, 2)
        strongest = [torch.relu(convolution(embedded)).amax(2) for convolution in self.convolutions]
        return self.head(torch.cat(strongest, 1))


def programs() -> Iterator[Program]:
    def made(make: type[nn.Module], name: str, **inputs: Input) -> Program:
        return Program(name, "sequences", make, inputs)

    yield made(LstmTagger, "lstm_tagger", words=integers(1000, B, 24))
    yield made(DeepAr, "deepar", series=floats(B, 32), known=floats(B, 32, 4))
    yield made(NBeats, "n_beats", series=floats(B, 64))
    yield made(Tcn, "tcn", series=floats(B, 8, 64))
    yield made(WaveNet, "wavenet", samples=integers(64, B, 128))
    yield made(SelectiveScan, "selective_scan", tokens=floats(B, 24, 64))
    yield made(SpeechEncoder, "speech_encoder", wave=floats(B, 4096))
    yield made(WordCnn, "word_cnn", words=integers(5000, B, 48))
