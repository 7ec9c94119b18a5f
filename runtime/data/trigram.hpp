// A trigram model of bytes: a baseline that a trained language model must beat.
//
// Symbols are the 256 bytes and the end of a document. Witten-Bell interpolation over the orders 2,
// 1, 0 and the uniform distribution. For a context seen n times with t different successors:
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

/// Only one thread may call `add`; afterwards any thread may read. Takes about 70 MB.
class trigram_model {
 public:
  static constexpr int symbols = 257;
  static constexpr int end_of_document = 256;

  trigram_model();

  /// Counts the bytes of a document and its end. Its context is the end of another document.
  void add(std::string_view document);

  /// The negative log2 probability of the document and its end.
  double bits(std::string_view document) const;

  /// p(c | ab).
  double probability(int a, int b, int c) const;

 private:
  struct context {
    std::uint64_t seen = 0;
    std::uint32_t successors = 0;
  };

  void count(int a, int b, int c);

  std::vector<std::uint32_t> triples_, pairs_, singles_;  // counts, indexed by symbols
  std::vector<context> after_two_, after_one_;
  context after_none_;
};

}  // namespace troupe::runtime
