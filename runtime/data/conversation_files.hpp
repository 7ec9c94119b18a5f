// Conversations on disk: files of them become two indexed data sets, which training maps.
//
//   <prefix>_conversations            one sequence of token ids for each conversation
//   <prefix>_conversations_answers    for each the ends of its answers: begin, end, begin, end ...

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/conversation.hpp"
#include "runtime/data/indexed_dataset.hpp"

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace troupe::runtime {

struct conversation_files_options {
  std::vector<std::filesystem::path> inputs = {};  ///< of JSON objects a line, in this order
  std::filesystem::path output_prefix = {};
  unsigned workers = 1;    ///< threads that tokenize, at least 1
  cancel_token stop = {};  ///< looked at before each conversation
};

struct conversation_files_result {
  std::filesystem::path prefix;  ///< of the tokens
  std::int64_t conversations = 0, tokens = 0;
  std::int64_t answer_tokens = 0;  ///< that are part of an answer
  std::int64_t longest = 0;        ///< tokens of the longest conversation
  /// Names of fields of lines and of messages that neither Troupe reads nor the template.
  std::set<std::string> unread_of_lines, unread_of_messages;
};

/// Tokenizes every conversation; files may be compressed (inflating_file.hpp). The output does not
/// depend on `workers`; memory is some megabytes a worker, thrice the longest line, which has at
/// most 256 MB, and 24 bytes a conversation. Throws input_error with file and line for what is no
/// conversation (see conversations_of, tokenize), io_error, and `cancelled`. Then no file of the
/// output is left behind.
conversation_files_result write_conversations(const conversation_rules& by,
                                              const conversation_files_options& options);

/// The data set with the answers of the conversations at `prefix`.
std::filesystem::path answers_prefix(const std::filesystem::path& prefix);

/// Conversations as they were written. Immutable; any thread.
class conversation_source {
 public:
  /// Throws input_error when a file is missing or damaged, or the two data sets do not belong
  /// together.
  explicit conversation_source(const std::filesystem::path& prefix,
                               const object_access& objects = {});

  const indexed_dataset& tokens() const { return tokens_; }

  /// Throws input_error for answers that are no ascending parts of the conversation.
  std::vector<token_range> answers(std::int64_t conversation) const;

  /// Says that its answers and its first tokens, so many, will be read soon.
  void expect(std::int64_t conversation, std::size_t tokens) const;

 private:
  indexed_dataset tokens_, answers_;
};

}  // namespace troupe::runtime
