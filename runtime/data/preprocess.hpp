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

inline constexpr unsigned most_preprocess_workers = 1024;

struct preprocess_options {
  std::vector<std::filesystem::path> inputs = {};  ///< read in this order; may be compressed
  std::filesystem::path output_prefix = {};
  std::optional<text_format> format = {};         ///< none: by the name of each file
  std::vector<std::string> json_keys = {"text"};  ///< a data set for each
  bool append_eod = false;                        ///< end each document with the tokenizer's id
  bool framed = true;            ///< with what the tokenizer puts around a text (tokenizer::frame)
  bool split_sentences = false;  ///< a sequence for each sentence
  bool keep_newlines = false;    ///< white space after a sentence is its
  std::string language = "english";  ///< of the sentences
  unsigned workers = 1;              ///< threads that tokenize, at least 1
  bool resume = true;                ///< go on where a run of the same options was killed
  std::uint64_t journal_interval = std::uint64_t{64} << 20;  ///< bytes of text between two notes
  std::uint64_t largest_document = std::uint64_t{1} << 30;   ///< bytes; a larger one is refused
  cancel_token stop = {};  ///< looked at before each document and each megabyte
};

struct preprocess_result {
  std::filesystem::path
      prefix;  ///< of the data set: "<output_prefix>_<key>_document", or _sentence
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;  ///< of these, without a token
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::uint64_t bytes = 0;                ///< of text
  std::uint64_t resumed_bytes = 0;        ///< of these, a run before this one had done
  std::uint64_t most_text_in_memory = 0;  ///< bytes that were read and not yet written, at any time
  double seconds = 0;                     ///< of this run
};

/// The most text in memory with so many workers where no document (no line of jsonl) is larger than
/// `largest`: 2 MB for each worker and for the reader, and four times such a document, which the
/// reader and one worker have at once, with room to grow (PREPROCESS-A).
std::uint64_t preprocess_memory(unsigned workers, std::uint64_t largest);

/// Tokenizes every document into one sequence, or one for each sentence; an empty one becomes a
/// document without sequences. The output does not depend on `workers`. Memory: preprocess_memory,
/// the ids of that text, and nothing that grows with the number of documents. Draws a bar when
/// standard error is a terminal.
///
/// While it runs, and after it was killed, its parts lie beside the output ("<prefix>.bin.partial"
/// and others) with a journal, "<output_prefix>.journal". A run with the same tokenizer, inputs and
/// options goes on from there, and ends with the bytes of one that was never killed (RESUME-A); one
/// with others is refused, unless `resume` is off: then it begins anew.
///
/// Throws input_error for unreadable input (file, line and reason), for an input that is written
/// meanwhile, when there are no tokens at all, and when another process writes the same output:
/// then none of the output, nor of its parts, is left behind; io_error when the disk refuses,
/// `cancelled`, and what else may pass (no memory): then parts are left only where a journal says
/// how to go on.
std::vector<preprocess_result> preprocess(const tokenizer& with, const preprocess_options& options);

}  // namespace troupe::runtime
