// Text files as records, and records as documents: the reading is one thread's, the rest anybody's.

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

/// A place between two records of a file.
struct record_position {
  std::uint64_t byte = 0;  ///< of the text, inflated
  std::uint64_t line = 0;  ///< lines before it
};

/// What becomes one document: a line of JSON, a line, a paragraph, a file; not blank.
struct text_record {
  std::string_view text;
  std::uint64_t line = 0;  ///< its first, from 1
};

/// The records of a file in their order. Memory: 1 MB and twice the largest record. One thread uses
/// it.
class record_reader {
 public:
  /// From the front, or from where another reader of that file was. Throws as inflating_file, and
  /// `cancelled` here and in `next`: `stop` is looked at each megabyte.
  record_reader(const std::filesystem::path& path,
                text_format format,
                record_position from = {},
                cancel_token stop = {});

  /// False at the end. The text is valid until the next call. Throws input_error as inflating_file,
  /// and for a record of more than `largest` bytes.
  bool next(text_record& record, std::uint64_t largest = std::uint64_t(-1));

  record_position position() const { return {base_ + begin_, line_}; }  ///< after the last record
  std::uint64_t file_bytes() const;  ///< of the file, that the records so far stood in, about
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
  std::size_t begin_ = 0;     ///< in the buffer, after the last record
  std::size_t scan_ = 0;      ///< the next line
  std::size_t searched_ = 0;  ///< no line ends between scan_ and it
  std::uint64_t base_ = 0;    ///< of the text, where the buffer begins
  std::uint64_t line_ = 0;
  std::uint64_t largest_ = 0;
  bool ended_ = false;
};

/// Records to documents. One thread uses it.
class record_parser {
 public:
  /// `keys`: of jsonl; other formats have one document a record.
  record_parser(std::filesystem::path path, text_format format, std::vector<std::string> keys);
  ~record_parser();

  /// Per key the strings that the record has under it: one, or those of a list of strings, which
  /// are taken only where `lists`. Valid until the next call, and as long as the record. Throws
  /// input_error with file, line and reason: no JSON object with these keys, or no UTF-8.
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
