"""From an exported program and the sizes of a bucket to the flat, guarded graph that TorchInductor compiles."""
