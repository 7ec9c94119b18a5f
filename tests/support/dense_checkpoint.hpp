// Checkpoints of dense GPTs, and models with experts that begin with them.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

/// A tiny GPT of two layers without biases. The width of its feed-forward layers is a multiple
/// of 4.
inline runtime::gpt_config tiny_dense(kernels::activation activation) {
  auto out = tiny_gpt(2);
  out.activation = activation;
  out.gated = activation == kernels::activation::silu;
  out.linear_bias = false;
  out.ffn = 24;
  out.init_std = 0.2;
  return out;
}

/// The same with eight experts in each layer.
inline runtime::gpt_config with_slices(runtime::gpt_config c, std::int64_t granularity) {
  c.experts.number = 8;
  c.experts.ffn = c.ffn / granularity;
  c.experts.chosen = granularity < 2 ? 2 : granularity;
  return c;
}

/// Saves initial values, without moments. `change` gets the elements of each parameter first.
inline std::filesystem::path save_dense(
    const std::filesystem::path& dir,
    const runtime::gpt_config& c,
    const std::function<void(const std::string&, std::span<float>)>& change = {}) {
  using namespace runtime;
  auto model = gpt_spec(c);
  const auto range = all_of(model);
  const chunk all(std::move(model), range);
  std::vector<std::vector<float>> elements;
  std::vector<shard_to_write> tensors;
  for (const auto& e : entries_of(all.units(), {})) {
    if (e.owner >= 0)
      continue;
    auto& values = elements.emplace_back(initial_values(e, 7));
    if (change)
      change(e.spec.name, values);
    tensors.push_back(
        whole_tensor(e.spec.name, stored_type::f32, whole_extents(e.spec), values.data()));
  }
  checkpoint_writer writer(dir, 5, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = c;
  manifest.identity = manifest.layout = "{}";
  manifest.shards.push_back(writer.write_shard(shard_file("model", 1, 1), tensors));
  return writer.commit(manifest);
}

}  // namespace troupe::tests
