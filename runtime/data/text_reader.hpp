// Text files as a stream of documents: for the data of training and for the training of tokenizers.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// What a document is.
enum class text_format {
  jsonl,       ///< each line is a JSON object; the document is the string under a key
  paragraphs,  ///< plain text, documents separated by blank lines
  lines,       ///< plain text, each line that is not blank
  whole,       ///< plain text, the whole file
};

/// By the name of the file: jsonl for ".jsonl" and ".json", else paragraphs; ".gz" or ".zst" may
/// follow.
text_format text_format_of(const std::filesystem::path& path);

/// "jsonl", "paragraphs", "lines", "whole"; else input_error.
text_format parse_text_format(std::string_view name);

struct text_options {
  text_format format = text_format::jsonl;
  std::string json_key = "text";  ///< jsonl only
};

/// Called with a document and the bytes of the file that have been read by then; the text is valid
/// during the call only.
using document_visitor = std::function<void(std::string_view text, std::uint64_t bytes_done)>;

/// Visits the documents in their order. The file may be compressed (inflating_file.hpp), and larger
/// than memory; one document must fit. A byte order mark is dropped, as are the line ends around a
/// document; with `whole` the text is left as it is. A JSON string may be empty and is then
/// visited.
///
/// Throws input_error with file, line and reason for a line that is no JSON object with that key,
/// and for bytes that are not UTF-8.
void for_each_document(const std::filesystem::path& path,
                       const text_options& options,
                       const document_visitor& visit);

}  // namespace troupe::runtime
