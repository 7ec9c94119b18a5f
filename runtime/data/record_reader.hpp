// A reader that splits text files into records, and a parser that turns records into documents.
// One thread reads; several threads may parse, each with its own parser.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/inflating_file.hpp"
#include "runtime/data/text_reader.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// A position between two records of a file.
struct record_position {
  std::uint64_t byte = 0;  ///< in the decompressed text
  std::uint64_t line = 0;  ///< lines before it
};

/// The source of one document: a line of JSON, a line, a paragraph, or a file; not blank.
struct text_record {
  std::string_view text;
  std::uint64_t line = 0;  ///< its first line, from 1
};

/// Reads the records of a file in order. Memory: 1 MB and twice the largest record.
/// Single-threaded.
class record_reader {
 public:
  /// Starts at the front, or at the position of another reader of the file. Checks `stop` per
  /// megabyte, here and in `next`. Throws like inflating_file, and `cancelled`.
  record_reader(const std::filesystem::path& path,
                text_format format,
                record_position from = {},
                cancel_token stop = {});

  /// Reads a record; false at the end. Its text is valid until the next call. Throws input_error
  /// like inflating_file, and for a record of more than `largest` bytes.
  bool next(text_record& record, std::uint64_t largest = std::uint64_t(-1));

  record_position position() const { return {base_ + begin_, line_}; }  ///< after the last record
  std::uint64_t file_bytes() const;  ///< approximate bytes of the file that were consumed
  std::uint64_t buffered() const { return buffer_.capacity(); }

 private:
  bool line(std::size_t& begin, std::size_t& end);
  bool fill();
  bool one_line(text_record& record);
  bool paragraph(text_record& record);
  bool whole(text_record& record);
  void require_room(std::uint64_t bytes) const;

  std::filesystem::path path_;
  inflating_file file_;
  text_format format_;
  cancel_token stop_;
  std::string buffer_;
  std::size_t begin_ = 0;     ///< end of the last record in the buffer
  std::size_t scan_ = 0;      ///< begin of the next line in the buffer
  std::size_t searched_ = 0;  ///< there is no line end in [scan_, searched_)
  std::uint64_t base_ = 0;    ///< position of the buffer in the text
  std::uint64_t line_ = 0;
  std::uint64_t largest_ = 0;
  bool ended_ = false;
};

/// Converts records to documents. Single-threaded.
class record_parser {
 public:
  /// `keys`: for jsonl; with other formats each record is one document.
  record_parser(std::filesystem::path path, text_format format, std::vector<std::string> keys);
  ~record_parser();

  /// The strings of the record, per key: one, or several if the value is a list (allowed only if
  /// `lists`). Valid until the next call, and as long as the record. Throws input_error with file,
  /// line and reason for text that is not UTF-8 or not a JSON object with these keys.
  const std::vector<std::vector<std::string_view>>& parse(const text_record& record, bool lists);

 private:
  void json_line(const text_record& record, bool lists);

  std::filesystem::path path_;
  text_format format_;
  std::vector<std::string> keys_;
  std::unique_ptr<nlohmann::json> value_;
  std::vector<std::vector<std::string_view>> documents_;
};

}  // namespace troupe::runtime
