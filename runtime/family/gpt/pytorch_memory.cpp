#include "runtime/family/gpt/gpt_estimates.hpp"

namespace troupe::runtime {
namespace {

std::int64_t all_parameters(const gpt_config& m) {
  const auto padding = (m.padded_vocabulary - m.vocabulary) * m.hidden;
  return parameter_count(m) + padding * (m.tied_embeddings ? 1 : 2);
}

/// Weights and biases that matrix products read.
std::int64_t elements_of_products(const gpt_config& m) {
  const auto attention = m.heads * m.head_size;
  auto layer = m.hidden * (m.qkv_width() + attention + m.fc1_width() + m.ffn);
  if (m.linear_bias || m.qkv_bias)
    layer += m.qkv_width();
  if (m.linear_bias)
    layer += 2 * m.hidden + m.fc1_width();
  return m.layers * layer + m.padded_vocabulary * m.hidden;
}

std::int64_t statistics(const gpt_config& m) {
  return m.normalization == kernels::normalization::layer ? 8 : 4;
}

/// Bytes per token that both modes save for a layer's norms and attention.
std::int64_t norms_and_attention(const gpt_config& m, std::int64_t narrow) {
  const auto queries = m.heads * m.head_size;
  const auto turned = m.position == position_embedding::rope ? queries + m.groups * m.head_size : 0;
  return 2 * (4 * m.hidden + statistics(m) + narrow * m.hidden)
         + narrow * (m.qkv_width() + turned + queries) + 4 * m.heads;
}

/// Bytes per token for its id and label, the last norm, and the input of the head.
std::int64_t around_layers(const gpt_config& m, std::int64_t narrow) {
  return 16 + 4 * m.hidden + statistics(m) + narrow * m.hidden;
}

std::int64_t eager_token(const gpt_config& m, std::int64_t narrow) {
  const bool gated = m.gated;
  const auto mask = m.hidden_dropout > 0 ? m.hidden : 0;
  const auto layer = norms_and_attention(m, narrow) + narrow * (gated ? 4 : 2) * m.ffn + 2 * mask;
  return m.layers * layer + around_layers(m, narrow) + mask;
}

std::int64_t compiled_token(const gpt_config& m, std::int64_t narrow) {
  const auto layer = norms_and_attention(m, narrow) + narrow * (m.fc1_width() + m.ffn);
  return m.layers * layer + around_layers(m, narrow);
}

}  // namespace

pytorch_memory gpt_pytorch_memory(const gpt_config& m, const job_outline& job, pytorch_mode mode) {
  const bool eager = mode == pytorch_mode::eager;
  const auto each = 4 * all_parameters(m);
  const auto narrow = job.element_bytes;
  const auto tokens = job.micro * m.sequence;
  pytorch_memory out{.parameters = each,
                     .gradients = each,
                     .moments = 2 * each,
                     .buckets = job.world > 1 ? each : 0};
  if (narrow < 4)
    out.cast = narrow * elements_of_products(m);
  out.activations = tokens * (eager ? eager_token(m, narrow) : compiled_token(m, narrow));
  out.loss = eager ? tokens * 12 * m.padded_vocabulary
                   : tokens * (narrow * m.padded_vocabulary + 4)
                         + narrow * m.padded_vocabulary * m.hidden;
  out.accumulates = job.global > job.micro * job.world;
  out.together = !eager;
  return out;
}

}  // namespace troupe::runtime
