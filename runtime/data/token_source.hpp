// An interface for sources of numbered sequences of token ids.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace troupe::runtime {

/// Immutable after construction; any number of threads may read at once.
class token_source {
 public:
  virtual ~token_source() = default;

  virtual std::int64_t sequences() const = 0;

  /// Number of tokens of a sequence; 0 <= sequence < sequences().
  virtual std::int32_t length(std::int64_t sequence) const = 0;

  /// Copies the tokens [offset, offset + out.size()) of the sequence, which must exist (SOURCE-1).
  /// Throws input_error when an id does not fit 32 bits.
  virtual void get(std::int64_t sequence,
                   std::int64_t offset,
                   std::span<std::int32_t> out) const = 0;

  /// Hint: `get` will soon be called for these tokens (sequence, offset, count).
  virtual void expect(std::int64_t, std::int64_t, std::size_t) const {}

  /// The location of a sequence for messages: "'corpus.bin', document 12 (sequence 14)".
  virtual std::string place(std::int64_t sequence) const = 0;
};

/// A token source whose sequences are the sentences of documents.
class document_source : public token_source {
 public:
  virtual std::int64_t documents() const = 0;
  /// Document d has the sequences [document_begin(d), document_begin(d + 1)); 0 <= d <=
  /// documents().
  virtual std::int64_t document_begin(std::int64_t document) const = 0;
};

}  // namespace troupe::runtime
