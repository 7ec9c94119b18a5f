// A reader of a file that is one JSON array, as downloads of ShareGPT and Alpaca are: gives its
// elements in order without holding the whole file.

#pragma once

#include "runtime/data/inflating_file.hpp"
#include "runtime/data/record_reader.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Finds where each element begins and ends, and leaves its syntax to the parser. Memory: 1 MB and
/// twice the largest element. Single-threaded.
class json_array_reader {
 public:
  /// True if the text of the file begins with "[". Throws like inflating_file.
  static bool reads(const std::filesystem::path& path);

  /// Throws like inflating_file.
  explicit json_array_reader(const std::filesystem::path& path);

  /// Reads an element; false after the last one. Its text is valid until the next call, `line` is
  /// the line where it begins. Throws input_error like inflating_file, for an array that does not
  /// end or is followed by other text, and for an element of more than `largest` bytes.
  bool next(text_record& record, std::uint64_t largest = std::uint64_t(-1));

  std::uint64_t file_bytes() const { return file_.taken(); }  ///< bytes of the file read so far

 private:
  int peek();
  std::size_t end_of_element(std::uint64_t largest);
  bool fill();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  inflating_file file_;
  std::string buffer_;
  std::size_t at_ = 0;      ///< end of the finished text in the buffer
  std::uint64_t line_ = 1;  ///< line of `at_`
  bool begun_ = false, ended_ = false;
};

}  // namespace troupe::runtime
