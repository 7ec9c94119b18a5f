// Reference output of megatron-core and numpy (tests/golden/data/make.py), and its data sets.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/places.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::tests {

inline const nlohmann::json& golden() {
  static const auto all
      = nlohmann::json::parse(runtime::read_text(source_dir() + "/tests/golden/data/golden.json"));
  return all;
}

inline std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes)
    out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

inline std::string sha256_of(const void* data, std::size_t size) {
  runtime::sha256 h;
  h.add(data, size);
  return h.hex();
}

/// The token that make.py writes at this position.
inline std::int32_t golden_token(std::int64_t sequence,
                                 std::int64_t position,
                                 std::int64_t vocabulary) {
  return static_cast<std::int32_t>((sequence * 31 + position * 7 + 1) % (vocabulary - 1) + 1);
}

/// Writes documents, given as lists of sequence lengths; each sequence ends in 0.
inline void write_dataset(const std::filesystem::path& prefix,
                          std::int64_t vocabulary,
                          const std::vector<std::vector<std::int32_t>>& documents) {
  runtime::indexed_dataset_builder out(prefix, vocabulary);
  for (const auto& lengths : documents) {
    for (const auto length : lengths) {
      std::vector<std::int32_t> ids;
      for (std::int32_t t = 0; t < length; ++t)
        ids.push_back(golden_token(out.sequences(), t, vocabulary));
      if (length > 0)
        ids.back() = 0;
      out.add_sequence(ids);
    }
    out.end_document();
  }
  out.finish();
}

}  // namespace troupe::tests
