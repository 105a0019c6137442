"""Proves that proto/ is wire-compatible with the clients in the field.

Every message, field, enum and method that proto/open_inference.proto declares is
compared with the descriptors that tritonclient was generated from; ModelConfig and the
messages below it may declare fewer fields, never different ones.
"""

import subprocess
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet

service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")
model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2")

PROTO_FOLDER = Path(__file__).resolve().parents[2] / "proto"

# Messages that may be subsets of Triton's.
SUBSETS = {"ModelConfig", "ModelInput", "ModelOutput", "ModelInstanceGroup"}


def _describe_field(field: FieldDescriptorProto, message: DescriptorProto) -> tuple:
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
    return (field.number, field.type, field.label, field.type_name, oneof)


def _flatten(messages, prefix: str = "") -> dict[str, dict[str, tuple]]:
    """Full message name -> field name -> everything that matters on the wire."""
    flat: dict[str, dict[str, tuple]] = {}
    for message in messages:
        name = prefix + message.name
        flat[name] = {field.name: _describe_field(field, message) for field in message.field}
        flat.update(_flatten(message.nested_type, name + "."))
    return flat


def _enums(messages, enums, prefix: str = "") -> dict[str, dict[str, int]]:
    flat = {prefix + enum.name: {value.name: value.number for value in enum.value} for enum in enums}
    for message in messages:
        flat.update(_enums(message.nested_type, message.enum_type, prefix + message.name + "."))
    return flat


def compiled(name: str, folder: Path) -> descriptor_pb2.FileDescriptorProto:
    """A file of proto/."""
    out = folder / "set.bin"
    subprocess.run(
        ["protoc", f"--proto_path={PROTO_FOLDER}", f"--descriptor_set_out={out}", str(PROTO_FOLDER / name)], check=True
    )
    return FileDescriptorSet.FromString(out.read_bytes()).file[0]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pb2.FileDescriptorProto:
    return compiled("open_inference.proto", tmp_path_factory.mktemp("descriptors"))


@pytest.fixture(scope="module")
def theirs() -> list[descriptor_pb2.FileDescriptorProto]:
    files = []
    for module in (service_pb2, model_config_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def test_package(ours, theirs) -> None:
    assert {file.package for file in theirs} == {ours.package}


def test_messages(ours, theirs) -> None:
    wanted = {name: fields for file in theirs for name, fields in _flatten(file.message_type).items()}
    declared = _flatten(ours.message_type)
    assert len(declared) > 50
    for name, fields in declared.items():
        assert name in wanted, f"{name} is no message of Triton's"
        for field, description in fields.items():
            assert wanted[name].get(field) == description, f"{name}.{field}"
        if name not in SUBSETS:
            assert set(fields) == set(wanted[name]), name


def test_every_service_message_is_declared(ours, theirs) -> None:
    assert set(_flatten(theirs[0].message_type)) <= set(_flatten(ours.message_type))


def test_enums(ours, theirs) -> None:
    wanted = {
        name: values for file in theirs for name, values in _enums(file.message_type, file.enum_type).items()
    }
    declared = _enums(ours.message_type, ours.enum_type)
    assert "DataType" in declared
    for name, values in declared.items():
        assert wanted[name] == values, name


def test_methods(ours, theirs) -> None:
    def methods(file: descriptor_pb2.FileDescriptorProto) -> dict[str, tuple]:
        assert len(file.service) == 1
        service = file.service[0]
        return {
            f"{service.name}.{m.name}": (m.input_type, m.output_type, m.client_streaming, m.server_streaming)
            for m in service.method
        }

    assert methods(ours) == methods(theirs[0])
    assert len(methods(ours)) == 20


def test_what_a_config_pbtxt_may_say(theirs, tmp_path: Path) -> None:
    """All of Triton's fields, and no others: proto/model_config.proto, in a package of its own."""

    def plain(messages: dict[str, dict[str, tuple]]) -> dict[str, dict[str, tuple]]:
        return {
            name: {
                field: (*rest, type_name.removeprefix(".inference.").removeprefix(".triton."), oneof)
                for field, (*rest, type_name, oneof) in fields.items()
            }
            for name, fields in messages.items()
        }

    file = compiled("model_config.proto", tmp_path)
    assert file.package == "triton"
    assert plain(_flatten(file.message_type)) == plain(_flatten(theirs[1].message_type))
    assert _enums(file.message_type, file.enum_type) == _enums(theirs[1].message_type, theirs[1].enum_type)
