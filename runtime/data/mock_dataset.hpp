// Synthetic sequences without files, equal to Megatron-LM's mock data.

#pragma once

#include "runtime/data/token_source.hpp"

#include <vector>

namespace troupe::runtime {

/// 100000 sequences of 1 to 4095 tokens (lengths from numpy's default_rng(0)). Each sequence is
/// 1, 2, 3, ... modulo the vocabulary and ends with the end-of-document token. Follows
/// megatron-core 0.16.
class mock_dataset final : public token_source {
 public:
  /// Throws input_error unless 0 <= end_of_document < vocabulary.
  mock_dataset(std::int64_t vocabulary, std::int32_t end_of_document);

  std::int64_t sequences() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::int32_t length(std::int64_t sequence) const override;
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;
  std::string place(std::int64_t sequence) const override;

 private:
  std::int64_t vocabulary_;
  std::int32_t end_of_document_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace troupe::runtime
