// Converts text files to indexed data sets, like Megatron's preprocess_data.py.

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

inline constexpr unsigned most_preprocess_workers = 1024;

struct preprocess_options {
  std::vector<std::filesystem::path> inputs = {};  ///< read in this order; may be compressed
  std::filesystem::path output_prefix = {};
  std::optional<text_format> format = {};         ///< nullopt: by the name of each file
  std::vector<std::string> json_keys = {"text"};  ///< one data set per key
  bool append_eod = false;                        ///< append the end-of-document id
  /// Adds the tokenizer's special tokens (tokenizer::frame) to documents; sentences get none.
  bool framed = true;
  bool split_sentences = false;      ///< one sequence per sentence
  bool keep_newlines = false;        ///< keep the white space after a sentence
  std::string language = "english";  ///< of the sentences
  unsigned workers = 1;              ///< threads that tokenize, at least 1
  bool resume = true;                ///< resume a killed run with the same options
  std::uint64_t journal_interval = std::uint64_t{64} << 20;  ///< bytes of text between writes
  std::uint64_t largest_document = std::uint64_t{1} << 30;   ///< bytes; refuses larger ones
  cancel_token stop = {};  ///< checked before each document and each megabyte
};

struct preprocess_result {
  std::filesystem::path prefix;  ///< "<output_prefix>_<key>_document", or _sentence
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;  ///< documents without tokens
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::uint64_t bytes = 0;                ///< of text
  std::uint64_t resumed_bytes = 0;        ///< of these, done by previous runs
  std::uint64_t most_text_in_memory = 0;  ///< peak of bytes that are read but not written
  double seconds = 0;                     ///< of this run
};

/// Upper bound of the bytes of text in memory if no document (no line of jsonl) exceeds `largest`
/// (PREPROCESS-A). Counts 2 MB for each worker and for the reader, and four times `largest`: the
/// reader and one worker each hold such a document in a growing buffer.
std::uint64_t preprocess_memory(unsigned workers, std::uint64_t largest);

/// Tokenizes every document into one sequence, or one sequence per sentence; an empty document has
/// no sequences. The output does not depend on `workers`. Memory: preprocess_memory and the ids of
/// that text, independent of the number of documents. Shows a progress bar when standard error is a
/// terminal.
///
/// During a run, and after it was killed, its parts ("<prefix>.bin.partial" and others) and a
/// journal ("<output_prefix>.journal") are beside the output. A run with the same tokenizer, inputs
/// and options resumes there, and gives the bytes of an uninterrupted run (RESUME-A). A run with
/// other ones is refused, or starts again if `resume` is false.
///
/// Throws input_error for unreadable input (file, line and reason), for an input that changes
/// meanwhile, when there are no tokens at all, and when another process writes the same output;
/// then removes the output and its parts. Throws io_error, `cancelled`, and other temporary errors
/// (no memory); then keeps the parts if a journal makes a resume possible.
std::vector<preprocess_result> preprocess(const tokenizer& with, const preprocess_options& options);

}  // namespace troupe::runtime
