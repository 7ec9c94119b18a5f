// The manifest of a data set, "<prefix>.manifest.json": identifies the tokenizer that made the ids.
// Data sets of Megatron-LM have none. Format: docs/formats/indexed_dataset.md.

#pragma once

#include "runtime/data/byte_source.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct dataset_manifest {
  std::string tokenizer;             ///< one of tokenizer_types()
  std::string fingerprint;           ///< as printed by to_string(digest)
  std::int64_t vocabulary = 0;       ///< number of ids
  std::int64_t end_of_document = 0;  ///< id; -1: no token ends documents

  friend bool operator==(const dataset_manifest&, const dataset_manifest&) = default;
};

dataset_manifest manifest_of(const tokenizer& made_by);

/// "HuggingFaceTokenizer of 32000 ids (fingerprint 0a1b..., documents end with 2)"
std::string to_text(const dataset_manifest& x);

std::filesystem::path manifest_path(const std::filesystem::path& prefix);

/// Writes the manifest durably, or removes it when `x` is nullopt. Throws io_error.
void write_manifest(const std::filesystem::path& prefix, const std::optional<dataset_manifest>& x);

/// Returns nullopt when there is no manifest. Throws input_error when it is damaged, and like
/// open_bytes.
std::optional<dataset_manifest> read_manifest(const std::filesystem::path& prefix,
                                              const object_access& objects = {});

/// True if an id can mean different texts in `a` and `b`. Always false when one of them is a
/// NullTokenizer, because its ids have no text.
bool have_other_ids(const dataset_manifest& a, const dataset_manifest& b);

}  // namespace troupe::runtime
