// Reads text files as a stream of documents, to preprocess data and to train tokenizers.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The division of a file into documents.
enum class text_format {
  jsonl,       ///< each line is a JSON object; the document is the string under a key
  paragraphs,  ///< plain text, documents separated by blank lines
  lines,       ///< plain text, one document per non-blank line
  whole,       ///< plain text, the file is one document
};

/// The format by file name: jsonl for ".jsonl" and ".json", else paragraphs. Ignores ".gz" and
/// ".zst".
text_format text_format_of(const std::filesystem::path& path);

/// Parses "jsonl", "paragraphs", "lines" or "whole". Throws input_error.
text_format parse_text_format(std::string_view name);

struct text_options {
  text_format format = text_format::jsonl;
  std::string json_key = "text";  ///< jsonl only
};

/// Called with a document and the bytes of the file read so far; `text` is valid during the call.
using document_visitor = std::function<void(std::string_view text, std::uint64_t bytes_done)>;

/// Visits the documents in order. The file may be compressed (inflating_file.hpp) and larger than
/// memory, but one document must fit. Drops a byte order mark and the line ends around a document;
/// `whole` keeps line ends. Also visits empty JSON strings.
///
/// Throws input_error with file, line and reason for a line that is not a JSON object with that
/// key, and for bytes that are not UTF-8.
void for_each_document(const std::filesystem::path& path,
                       const text_options& options,
                       const document_visitor& visit);

}  // namespace troupe::runtime
