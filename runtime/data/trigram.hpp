// A byte model that looks two symbols back: what any language model must beat to have learnt
// something.
//
// Symbols are the 256 bytes and the end of a document. Probabilities are interpolated over the
// orders 2, 1, 0 and the uniform distribution, by Witten and Bell: after a context that was seen n
// times with t different successors,
//
//   p(c | ab) = (count(abc) + t * p(c | b)) / (n + t),   likewise p(c | b) from p(c),
//   p(c) = (count(c) + t / 257) / (n + t).
//
// Witten, Bell: "The zero-frequency problem", IEEE Transactions on Information Theory 37, 1991.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Counting by one thread; then any thread may ask. Takes about 70 MB.
class trigram_model {
 public:
  static constexpr int symbols = 257;
  static constexpr int end_of_document = 256;

  trigram_model();

  /// Counts the bytes of a document and its end. It begins as if after the end of another.
  void add(std::string_view document);

  /// Bits of all bytes of the document and of its end: minus the logarithm of their probability.
  double bits(std::string_view document) const;

  /// p(c | ab).
  double probability(int a, int b, int c) const;

 private:
  struct context {
    std::uint64_t seen = 0;
    std::uint32_t successors = 0;
  };

  void count(int a, int b, int c);

  std::vector<std::uint32_t> triples_, pairs_, singles_;  // by symbols
  std::vector<context> after_two_, after_one_;
  context after_none_;
};

}  // namespace troupe::runtime
