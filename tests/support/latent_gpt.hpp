// A tiny GPT with latent attention.

#pragma once

#include "runtime/model/layers/latent_attention.hpp"
#include "tests/support/tiny_gpt.hpp"

namespace troupe::tests {

/// Queries of low rank with neighbouring pairs, or of one product with halves. All sizes differ.
inline runtime::latent_attention_spec tiny_latent(bool low_rank, double dropout = 0) {
  return {.hidden = 16,
          .heads = 4,
          .q_rank = low_rank ? 7 : 0,
          .kv_rank = 6,
          .own_size = 3,
          .rotated = 4,
          .value_size = 5,
          .scale = 0.4,
          .rotary_magnitude = 1.25,
          .rotary_interleaved = low_rank,
          .norm = {.kind = kernels::normalization::rms},
          .dropout = dropout,
          .init_std = 0.1,
          .output_init_std = 0.1};
}

/// Two layers without biases. The head size of the configuration is that of the shared key, for the
/// frequencies.
inline runtime::gpt_config gpt_for_latents() {
  auto config = tiny_gpt(2);
  config.position = runtime::position_embedding::rope;
  config.normalization = kernels::normalization::rms;
  config.linear_bias = config.tied_embeddings = false;
  return config;
}

/// The same with latent attention.
inline runtime::model_spec latent_gpt(bool low_rank,
                                      double dropout = 0,
                                      bool caches_latents = false) {
  auto config = gpt_for_latents();
  config.hidden_dropout = dropout;
  auto out = runtime::gpt_spec(config);
  auto attention = tiny_latent(low_rank, dropout);
  attention.caches_latents = caches_latents;
  for (std::size_t l = 0; l < 2; ++l) {
    auto& first = out.part<runtime::layer_spec>(l).sublayers.at(0);
    first.get_if<runtime::residual_sublayer>()->body = attention;
  }
  return out;
}

/// Replaces feed-forward layers by latent attention. For gpt_for_latents.
inline runtime::extension latent_extension(bool low_rank) {
  return {.name = "latent attention",
          .feed_forward = [=](runtime::module_builder& to, const runtime::feed_forward_spec&) {
            add(to, runtime::residual_sublayer{.name = "latent", .body = tiny_latent(low_rank)});
          }};
}

}  // namespace troupe::tests
