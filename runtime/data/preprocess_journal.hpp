// The journal of `preprocess`: stores its progress, so that another process can resume a killed
// run.

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

/// The progress of one data set.
struct key_progress {
  dataset_progress dataset = {};
  std::uint64_t bytes = 0;           ///< of text
  std::int64_t empty_documents = 0;  ///< documents without tokens
};

struct preprocess_progress {
  std::uint64_t input = 0;                ///< the current file; all files before it are done
  record_position at = {};                ///< position in that file
  std::vector<key_progress> by_key = {};  ///< in the order of preprocess_options::json_keys
  bool read = false;                      ///< all inputs are read; publishing is left
};

/// The JSON file "<output prefix>.journal". Writes replace it atomically and durably. The caller
/// makes the parts durable first (RESUME-A).
class preprocess_journal {
 public:
  /// `identity`: everything that determines the output, an object of strings, numbers and lists.
  preprocess_journal(const std::filesystem::path& output_prefix, nlohmann::json identity);

  /// The progress of an interrupted run of the same identity; nullopt if there is none, or if it
  /// had not begun. Throws input_error for a run of another identity, naming the differences, and
  /// for a damaged file.
  std::optional<preprocess_progress> read() const;

  /// The identity in the file; null if the file is missing or damaged.
  nlohmann::json identity_left() const;

  void write(const preprocess_progress& progress) const;  ///< throws io_error
  void remove() const;                                    ///< throws io_error

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  nlohmann::json identity_;
};

}  // namespace troupe::runtime
