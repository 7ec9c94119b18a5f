// Conversations on disk: converts files of conversations to two indexed data sets, and reads them.
//
//   <prefix>_conversations            the token ids, one sequence per conversation
//   <prefix>_conversations_answers    the ranges of its answers: begin, end, begin, end ...

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
  /// JSON lines, or one JSON array per file; read in this order.
  std::vector<std::filesystem::path> inputs = {};
  std::filesystem::path output_prefix = {};
  unsigned workers = 1;    ///< threads that tokenize, at least 1
  bool strict = false;     ///< refuse a conversation without an answer instead of skipping it
  cancel_token stop = {};  ///< checked before each conversation
};

struct conversation_files_result {
  std::filesystem::path prefix;  ///< of the data set of tokens
  std::int64_t conversations = 0, tokens = 0;
  std::int64_t answer_tokens = 0;
  std::int64_t longest = 0;                  ///< tokens of the longest conversation
  std::int64_t skipped = 0;                  ///< conversations without an answer to learn
  std::vector<std::string> skipped_at = {};  ///< the first ones: "line 3 of 'talks.jsonl'"
  /// Names of the fields of lines and messages that Troupe and the template ignore.
  std::set<std::string> unread_of_lines, unread_of_messages;
};

/// Tokenizes every conversation. Files may be compressed (inflating_file.hpp). The output does not
/// depend on `workers`. Memory: some megabytes per worker, three times the longest line or element
/// (at most 256 MB), and 24 bytes per conversation. Throws input_error with file and line for an
/// invalid conversation (see conversations_of, tokenize) and when none is left, io_error, and
/// `cancelled`; then removes the output.
conversation_files_result write_conversations(const conversation_rules& by,
                                              const conversation_files_options& options);

/// The data set with the answers of the conversations at `prefix`.
std::filesystem::path answers_prefix(const std::filesystem::path& prefix);

/// Reads the data sets that write_conversations wrote. Immutable; any thread.
class conversation_source {
 public:
  /// Throws input_error when a file is missing or damaged, or the two data sets do not match.
  explicit conversation_source(const std::filesystem::path& prefix,
                               const object_access& objects = {});

  const indexed_dataset& tokens() const { return tokens_; }

  /// Throws input_error when the answers are not ascending ranges within the conversation.
  std::vector<token_range> answers(std::int64_t conversation) const;

  /// Hint: the answers and the first `tokens` tokens will be read soon.
  void expect(std::int64_t conversation, std::size_t tokens) const;

 private:
  indexed_dataset tokens_, answers_;
};

}  // namespace troupe::runtime
