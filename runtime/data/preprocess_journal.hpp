// How far a `preprocess` is: what the next process needs to go on after it was killed.

#pragma once

#include "runtime/data/dataset_parts.hpp"
#include "runtime/data/record_reader.hpp"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// What was written of one data set.
struct key_progress {
  dataset_progress dataset = {};
  std::uint64_t bytes = 0;           ///< of text
  std::int64_t empty_documents = 0;  ///< those without a token
};

struct preprocess_progress {
  std::uint64_t input = 0;                ///< the files before this one are done
  record_position at = {};                ///< in it
  std::vector<key_progress> by_key = {};  ///< as preprocess_options::json_keys
  bool read = false;                      ///< all inputs; the data sets wait to be published
};

/// A file "<output prefix>.journal", JSON, replaced as a whole and durably: what it says of the
/// parts was durable before (RESUME-A).
class preprocess_journal {
 public:
  /// `identity`: what decides the output, an object of strings, numbers and lists.
  preprocess_journal(const std::filesystem::path& output_prefix, nlohmann::json identity);

  /// Where a run of the same identity stopped; nothing without one, or where it had not begun.
  /// Throws input_error for a run of another identity, which it describes, and for a file that is
  /// damaged.
  std::optional<preprocess_progress> read() const;

  /// What decided the output of the run that left it; null without one, and of a damaged one.
  nlohmann::json identity_left() const;

  void write(const preprocess_progress& progress) const;  ///< throws io_error
  void remove() const;                                    ///< throws io_error

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  nlohmann::json identity_;
};

}  // namespace troupe::runtime
