// The model and data of the examples: some thousand parameters, trained on counting sequences.

#pragma once

#include "runtime/core/random.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/trainer/reference_trainer.hpp"

namespace story {

namespace rt = troupe::runtime;

/// Two Llama-like layers; the vocabulary is the digits.
inline rt::gpt_config small_gpt() {
  rt::gpt_config c;
  c.layers = 2;
  c.hidden = 32;
  c.heads = c.groups = 4;
  c.head_size = 8;
  c.ffn = 64;
  c.sequence = 16;
  c.vocabulary = 10;
  c.padded_vocabulary = rt::padded_vocabulary_size(c.vocabulary, 8, 1);
  c.position = rt::position_embedding::rope;
  c.normalization = troupe::kernels::normalization::rms;
  c.activation = troupe::kernels::activation::silu;
  c.gated = true;
  c.linear_bias = c.tied_embeddings = false;
  c.hidden_dropout = c.attention_dropout = 0;
  return c;
}

/// The recipe: model, optimizer, learning rate, batches. Times are in samples, as in Megatron-LM.
inline rt::recipe small_recipe() {
  rt::recipe recipe;
  recipe.model = small_gpt();
  recipe.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 80, .decay = 1600};
  recipe.batch = {.micro = 4, .global = 8};
  return recipe;
}

/// Sample n counts from a random digit in steps of one or two: "7 8 9 0 1 ..." or "4 6 8 0 2 ...".
/// A micro-batch depends only on its address, not on the order of requests.
class counting final : public rt::batch_source {
 public:
  explicit counting(const rt::recipe& recipe) : recipe_(recipe) {}

  rt::bundle microbatch(const rt::microbatch_address& at) const override {
    const auto& deal = recipe_.batch;
    const auto T = recipe_.model.sequence();
    auto x = rt::empty_batch(rt::token_schema(T), deal.micro, pool_);
    for (std::int64_t b = 0; b < deal.micro; ++b) {
      const auto sample
          = rt::sample_position({std::uint64_t(deal.micro), std::uint64_t(deal.data_parallel)},
                                at.consumed,
                                at.microbatch,
                                at.replica,
                                std::uint64_t(b));
      const rt::sample_view view(x, b);
      view.at<std::uint64_t>("samples").front() = sample;
      const rt::token_row row(view);
      for (std::int64_t t = 0; t < T; ++t) {
        row.tokens[std::size_t(t)] = digit(sample, t);
        row.labels[std::size_t(t)] = digit(sample, t + 1);
        row.mask[std::size_t(t)] = 1;
        row.positions[std::size_t(t)] = std::int32_t(t);
      }
    }
    return x;
  }

 private:
  static std::int32_t digit(std::uint64_t sample, std::int64_t t) {
    const auto start = std::int64_t(10 * rt::uniform(sample, 0));
    return std::int32_t((start + t * std::int64_t(1 + sample % 2)) % 10);
  }

  rt::recipe recipe_;
  mutable rt::memory_pool pool_;
};

}  // namespace story
