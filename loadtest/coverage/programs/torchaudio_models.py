"""torchaudio's models and front ends. Lengths are inputs where the model asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from loadtest.coverage.program import B, Input, Program, floats, integers

FAMILY = "torchaudio"


def build(name: str, **arguments: Any) -> nn.Module:
    import torchaudio

    return getattr(torchaudio.models, name)(**arguments)


class Conformer(nn.Module):
    """Its layers over frames of which none is padding: with lengths the model reads the longest out of the tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build("Conformer", input_dim=80, num_heads=4, ffn_dim=256, num_layers=2,
                           depthwise_conv_kernel_size=15)  # fmt: skip

    def forward(self, frames: Tensor) -> Tensor:
        hidden = frames.transpose(0, 1)
        for layer in self.model.conformer_layers:
            hidden = layer(hidden, None)
        return hidden.transpose(0, 1)


class Emformer(nn.Module):
    """The streaming encoder over whole utterances; the last frames are the right context."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build("Emformer", input_dim=80, num_heads=4, ffn_dim=256, num_layers=2, segment_length=16,
                           left_context_length=16, right_context_length=4)  # fmt: skip

    def forward(self, frames: Tensor) -> Tensor:
        lengths = torch.full((frames.shape[0],), frames.shape[1] - 4, dtype=torch.int64)
        return self.model(frames, lengths)[0]


class TacotronEncoder(nn.Module):
    """Characters to the states that the decoder attends to: convolutions and an LSTM of both directions."""

    def __init__(self) -> None:
        super().__init__()
        from torchaudio.models import Tacotron2

        model = Tacotron2(symbol_embedding_dim=128, encoder_embedding_dim=128, encoder_n_convolution=3)
        self.embedding, self.convolutions, self.lstm = model.embedding, model.encoder.convolutions, model.encoder.lstm

    def forward(self, characters: Tensor) -> Tensor:
        hidden = self.embedding(characters).transpose(1, 2)
        for convolution in self.convolutions:
            hidden = torch.relu(convolution(hidden))
        return self.lstm(hidden.transpose(1, 2))[0]


class MelFrontEnd(nn.Module):
    """A wave to decibels of its mel spectrogram."""

    def __init__(self) -> None:
        super().__init__()
        from torchaudio import transforms

        self.mel = transforms.MelSpectrogram(16000, n_fft=400, hop_length=160, n_mels=64)
        self.decibels = transforms.AmplitudeToDB(top_db=None)

    def forward(self, wave: Tensor) -> Tensor:
        return self.decibels(self.mel(wave))


class MfccFrontEnd(nn.Module):
    """A wave to its cepstral coefficients and their change."""

    def __init__(self) -> None:
        super().__init__()
        from torchaudio import transforms

        self.mfcc = transforms.MFCC(16000, n_mfcc=20, log_mels=True, melkwargs={"n_fft": 400, "n_mels": 40})
        self.delta = transforms.ComputeDeltas()

    def forward(self, wave: Tensor) -> Tensor:
        coefficients = self.mfcc(wave)
        return torch.cat((coefficients, self.delta(coefficients)), 1)


def programs() -> Iterator[Program]:
    def made(name: str, make: Any, **inputs: Input) -> Program:
        return Program(f"ta_{name}", FAMILY, make, inputs)

    yield made("conformer", Conformer, frames=floats(B, 64, 80))
    yield made("emformer", Emformer, frames=floats(B, 68, 80))
    yield made("wav2letter", partial(build, "Wav2Letter", input_type="mfcc", num_features=40), x=floats(B, 40, 64))
    yield made("deepspeech", partial(build, "DeepSpeech", n_feature=80, n_hidden=256), x=floats(B, 1, 64, 80))
    separator = {"enc_num_feats": 64, "msk_num_feats": 32, "msk_num_hidden_feats": 64, "msk_num_layers": 4,
                 "msk_num_stacks": 2}  # fmt: skip
    yield made("conv_tasnet", partial(build, "ConvTasNet", **separator), input=floats(B, 1, 4000))
    vocoder = {"upsample_scales": [4, 5], "n_classes": 64, "hop_length": 20, "n_res_block": 2, "n_rnn": 64, "n_fc": 64,
               "n_freq": 40, "n_hidden": 64, "n_output": 64}  # fmt: skip
    yield made("wavernn", partial(build, "WaveRNN", **vocoder), waveform=floats(B, 1, 120, limits=(-1, 1)),
               specgram=floats(B, 1, 40, 10))  # fmt: skip
    yield made("tacotron2_encoder", TacotronEncoder, characters=integers(148, B, 24))
    yield made("mel_front_end", MelFrontEnd, wave=floats(B, 8000, limits=(-1, 1)))
    yield made("mfcc_front_end", MfccFrontEnd, wave=floats(B, 8000, limits=(-1, 1)))
