// Text files to an indexed data set: what Megatron's preprocess_data.py does.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/text_reader.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct preprocess_options {
  std::vector<std::filesystem::path> inputs = {};  ///< read in this order
  std::filesystem::path output_prefix = {};
  std::optional<text_format> format = {};         ///< none: by the name of each file
  std::vector<std::string> json_keys = {"text"};  ///< a data set for each
  bool append_eod = false;                        ///< end each document with the tokenizer's id
  bool framed = true;      ///< with what the tokenizer puts around a text (tokenizer::frame)
  unsigned workers = 1;    ///< threads that tokenise, at least 1
  cancel_token stop = {};  ///< looked at before each document
};

struct preprocess_result {
  std::filesystem::path prefix;  ///< of the data set: "<output_prefix>_<key>_document"
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::uint64_t bytes = 0;  ///< of text
  double seconds = 0;
};

/// Tokenises every document into one sequence; an empty one becomes a document without sequences.
/// The output does not depend on `workers`. Memory is bounded by some megabytes per worker, the
/// largest document, and 12 bytes per document. Draws a bar when standard error is a terminal.
///
/// Throws input_error for unreadable input (file, line and reason), when there are no tokens at
/// all, and when another process writes the same output; io_error when the disk refuses; and
/// `cancelled`. Then no file of the output is left behind.
std::vector<preprocess_result> preprocess(const tokenizer& with, const preprocess_options& options);

}  // namespace troupe::runtime
