// A file of vectors that an interrupted program continues.
//
//   FILE.npy    float32 (n, C), NumPy's format 1.0
//   FILE.jsonl  a line for each row: its text's file and line, its tokens, and if it was cut
//
// Until the last row is there, both are FILE.npy.partial and FILE.jsonl.partial, and FILE.journal
// says how far they are complete.

#pragma once

#include "runtime/data/record_reader.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/file/part_file.hpp"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace troupe::runtime {

/// The header of a .npy file of float32 (rows, width), 128 bytes.
std::string npy_header(std::int64_t rows, std::int64_t width);

struct vector_progress {
  std::int64_t rows = 0, cut = 0;
  std::uint64_t input = 0;  ///< the current file; all files before it are done
  record_position at = {};  ///< in that file
  std::uint64_t index_bytes = 0;
};

/// One thread uses it. Errors of the system are io_error.
class vector_file {
 public:
  /// `path` ends in .npy. `identity`: everything that decides the rows. Continues the rows of an
  /// interrupted program of the same identity, or begins anew with `resume` false. Throws
  /// input_error for a journal of another identity, for a damaged one, and while another process
  /// writes the file.
  vector_file(std::filesystem::path path,
              std::int64_t rows,
              std::int64_t width,
              nlohmann::json identity,
              bool resume);

  const vector_progress& progress() const { return progress_; }

  /// Appends rows and their lines of the index, and makes them durable. `progress`: after them.
  void add(std::span<const float> vectors, const std::string& index, vector_progress progress);

  /// Gives both files their names. Breaks VECTORS-1 unless all rows are there.
  void finish();

 private:
  std::optional<vector_progress> interrupted(bool resume) const;
  void write_journal() const;

  std::filesystem::path path_, index_, journal_;
  file_lock lock_;
  std::int64_t rows_, width_;
  nlohmann::json identity_;
  vector_progress progress_;
  std::optional<part_file> vectors_, lines_;  ///< null: only their names are left
};

}  // namespace troupe::runtime
