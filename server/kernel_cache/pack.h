// Packs: entries of a kernel cache as one file that can be copied, signed and
// pushed to a registry. Compile once, export, import wherever the hardware is
// the same.
//
// A pack is an uncompressed ustar archive (see pack_index.h and ustar.h), with
// members by name:
//
//   index.json                                what is in it, and what it fits
//   index.json.sig                            where it is signed
//   v1/entries/<2 hex>/<64 hex>/<file>        as in the cache
//   v1/notes/<64 hex>/<name>
//
// so an unpacked pack ("tar x", an image layer) is a cache folder that can be a
// read-only layer of a kernel cache. The same entries give the same bytes:
// nothing of a pack says who made it, when or where.
//
//   ExportPack(cache, cache.entries().Keys(), local, "minilm.pack",
//              &signing_key);
//   ImportPack(other_cache, "minilm.pack", {.trusted = {public_key}}, local);
//
// These functions block on disk; call them from any thread. Several at a time
// on one cache are fine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/kernel_cache.h"
#include "kernel_cache/pack_index.h"
#include "kernel_cache/signature.h"

namespace stoker {

// Writes the entries and their notes but the local ones, all verified on the
// way, to `path`, where a file appears (or is replaced) when it is complete and
// durable. `signer` may be null. The order of the keys does not matter.
// NOT_FOUND when the cache has no good entry of a key, INVALID_ARGUMENT without
// keys; then nothing is written.
absl::StatusOr<PackIndex> ExportPack(KernelCache& cache,
                                     std::vector<ArtifactKey> keys,
                                     const LocalNotes& local,
                                     const std::string& path,
                                     const SigningKey* signer);

struct ImportedPack {
  PackIndex index;
  SignatureVerdict signature;
  std::vector<ArtifactKey> committed;  // entries that are new in the cache
  std::vector<ArtifactKey> present;    // entries that it had; they are kept
};

// Commits the entries that the cache lacks, with their notes, once the whole
// pack has been checked: the signature, then the index, then every byte. An
// entry that the cache has stays; notes of the very same artifact are added to
// it unless it has some of that name. On error nothing of the pack has landed,
// unless it is the cache that failed (a full disk, say) while whole and right
// entries were committed one by one. PERMISSION_DENIED for what the policy
// keeps out, INVALID_ARGUMENT, with member, expected and found, for whatever is
// wrong with the pack; a note that is local is wrong.
absl::StatusOr<ImportedPack> ImportPack(KernelCache& cache,
                                        const std::string& path,
                                        const SignaturePolicy& policy,
                                        const LocalNotes& local);

struct PackSummary {
  PackIndex index;
  SignatureVerdict signature;
};

// What a pack says it holds, without a look at the entries themselves.
absl::StatusOr<PackSummary> ReadPackSummary(
    const std::string& path, const std::vector<PublicKey>& trusted);

}  // namespace stoker
