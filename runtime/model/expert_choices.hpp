// Choices of routers in files: a run records them, and another one replays them.
//
//   choice_writer to(folder);            choice_reader from(folder);
//   to.write({rows, chosen});            const auto chosen = from.read(rows);
//
// Each router has a file with a place for each row of each sample
// (docs/formats/expert_choices.md). Ranks write and read the rows that they have. Samples have the
// numbers of batch_schema.hpp. One lane uses an object.
//
// CHOICES-2: files do not depend on the layout of a run, so each layout replays the same choices.

#pragma once

#include "runtime/file/file.hpp"
#include "runtime/file/part_file.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Rows of a micro-batch for which a router of this rank chooses experts.
struct choice_rows {
  std::string router;                  ///< "decoder.layers.3.mlp.router"
  std::int64_t experts = 0;            ///< E
  std::int64_t each = 0;               ///< k
  std::int64_t positions = 0;          ///< T: rows of a sample
  std::vector<std::uint64_t> samples;  ///< (B) of the micro-batch
  std::int64_t first = 0, count = 0;   ///< row b T + t is position t of sample b
  // To find choices by text:
  std::vector<std::int32_t> tokens = {};  ///< (B T) of the micro-batch
  std::vector<std::int32_t> texts = {};   ///< the first row of each text in it, then B T
};

struct recorded_choice {
  choice_rows rows;
  std::vector<std::uint16_t> chosen;  ///< (count, each)
};

class choice_writer {
 public:
  /// The folder is made with the first write.
  explicit choice_writer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Replaces earlier choices of these rows. Throws input_error if the file has other content, and
  /// io_error. Breaks CHOICES-1 unless each row has its choices.
  void write(const recorded_choice& x);

 private:
  placed_file& file_of(const choice_rows& of);

  std::filesystem::path folder_;
  std::map<std::string, std::unique_ptr<placed_file>> files_;  ///< by router
};

class choice_texts;

class choice_reader {
 public:
  /// Opens files with the first read of their router. Throws input_error if the folder has a
  /// damaged file of texts.
  explicit choice_reader(std::filesystem::path folder);
  choice_reader(choice_reader&&) noexcept;
  ~choice_reader();

  /// True if the folder has choices by text (choice_texts.hpp): `read` needs choice_rows::tokens.
  bool finds_texts() const { return texts_ != nullptr; }

  /// (count, each) as they were recorded. The experts of a row are distinct and in [0, experts).
  /// By text, rows after the recorded ones, and padding, have -1. Throws input_error if the file
  /// has other content, not all of these rows, or not these texts.
  std::vector<std::int32_t> read(const choice_rows& of);

 private:
  class row_reader;
  const mapped_file& file_of(const choice_rows& of);
  void read_texts(const choice_rows& of, row_reader& by);

  std::filesystem::path folder_;
  std::unique_ptr<const choice_texts> texts_;  ///< null: samples have numbers
  std::map<std::string, mapped_file> files_;   ///< by router
};

/// Throws input_error unless the folder has files of choices, and io_error. A reader compares each
/// with its router at the first read.
void require_choices(const std::filesystem::path& folder);

}  // namespace troupe::runtime
