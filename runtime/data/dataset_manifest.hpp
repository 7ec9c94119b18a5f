// What a data set remembers of the tokenizer that made its ids: "<prefix>.manifest.json", beside
// the .bin and the .idx. Those of Megatron-LM have none. docs/formats/indexed_dataset.md shows one.

#pragma once

#include "runtime/data/byte_source.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct dataset_manifest {
  std::string tokenizer;             ///< its kind: one of tokenizer_types()
  std::string fingerprint;           ///< as to_string(digest)
  std::int64_t vocabulary = 0;       ///< ids
  std::int64_t end_of_document = 0;  ///< the id; -1: no token ends documents

  friend bool operator==(const dataset_manifest&, const dataset_manifest&) = default;
};

dataset_manifest manifest_of(const tokenizer& made_by);

/// "HuggingFaceTokenizer of 32000 ids (fingerprint 0a1b..., documents end with 2)"
std::string to_text(const dataset_manifest& x);

std::filesystem::path manifest_path(const std::filesystem::path& prefix);

/// Durably; without one, one that is there is removed. Throws io_error.
void write_manifest(const std::filesystem::path& prefix, const std::optional<dataset_manifest>& x);

/// Nothing where there is none. Throws input_error for one that is damaged, and as open_bytes.
std::optional<dataset_manifest> read_manifest(const std::filesystem::path& prefix,
                                              const object_access& objects = {});

/// Whether the same id means something else to each. The ids of a NullTokenizer stand for no text,
/// so that they are never told from others.
bool have_other_ids(const dataset_manifest& a, const dataset_manifest& b);

}  // namespace troupe::runtime
