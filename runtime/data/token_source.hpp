// Where tokens come from: sequences of token ids, read by number.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace troupe::runtime {

/// Immutable after construction, so any number of threads may read it at once.
class token_source {
 public:
  virtual ~token_source() = default;

  virtual std::int64_t sequences() const = 0;

  /// Tokens in that sequence; 0 <= sequence < sequences().
  virtual std::int32_t length(std::int64_t sequence) const = 0;

  /// Copies the tokens [offset, offset + out.size()) of the sequence. Asking for tokens that the
  /// sequence does not have is a broken promise (SOURCE-1). Throws input_error when an id does not
  /// fit 32 bits.
  virtual void get(std::int64_t sequence,
                   std::int64_t offset,
                   std::span<std::int32_t> out) const = 0;

  /// Says that `get` will be asked for these tokens soon; what they are is not looked at.
  virtual void expect(std::int64_t, std::int64_t, std::size_t) const {}

  /// Where a sequence stands, for messages: "'corpus.bin', document 12 (sequence 14)".
  virtual std::string place(std::int64_t sequence) const = 0;
};

}  // namespace troupe::runtime
