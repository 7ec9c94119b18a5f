// Very small GPTs, for checks of single gradients, and stages that run them without actors.

#pragma once

#include "runtime/core/random.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/model/liveness.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::tests {

/// Like GPT-2: learned positions, LayerNorm, GELU (tanh), biases, tied embeddings. No dropout.
inline runtime::gpt_config tiny_gpt(std::int64_t layers) {
  runtime::gpt_config c;
  c.layers = layers;
  c.hidden = 16;
  c.heads = c.groups = 4;
  c.head_size = 4;
  c.ffn = 20;
  c.sequence = 6;
  c.positions = 8;
  c.vocabulary = 21;
  c.padded_vocabulary = 24;
  c.hidden_dropout = c.attention_dropout = 0;
  return c;
}

/// By name, models that cover each option, most of them in several combinations.
inline std::map<std::string, runtime::gpt_config> tiny_gpts(std::int64_t layers) {
  using runtime::position_embedding;
  std::map<std::string, runtime::gpt_config> out;
  auto& gpt2 = out["learned, layer norm, gelu tanh, biases, tied, dropout"] = tiny_gpt(layers);
  gpt2.hidden_dropout = 0.2;
  gpt2.attention_dropout = 0.3;

  auto& llama = out["rope, rms norm, swiglu, no biases, untied, 2 groups"] = tiny_gpt(layers);
  llama.position = position_embedding::rope;
  llama.normalization = kernels::normalization::rms;
  llama.activation = kernels::activation::silu;
  llama.gated = true;
  llama.linear_bias = llama.tied_embeddings = false;
  llama.groups = 2;

  auto& qwen = out["rope, rms norm, swiglu, qkv biases, tied, 1 group, dropout"] = llama;
  qwen.qkv_bias = qwen.tied_embeddings = true;
  qwen.groups = 1;
  qwen.attention_dropout = 0.3;

  auto& bare = out["no positions, layer norm, gelu erf, biases, untied"] = tiny_gpt(layers);
  bare.position = position_embedding::none;
  bare.activation = kernels::activation::gelu_erf;
  bare.tied_embeddings = false;

  auto& mixed = out["learned, rms norm, gelu erf, no biases, tied, 2 groups"] = bare;
  mixed.position = position_embedding::learned_absolute;
  mixed.normalization = kernels::normalization::rms;
  mixed.linear_bias = false;
  mixed.tied_embeddings = true;
  mixed.groups = 2;

  auto& partial = out["half rope, interleaved, gelu tanh, untied, dropout"] = tiny_gpt(layers);
  partial.position = position_embedding::rope;
  partial.rotary_percent = 0.5;
  partial.rotary_interleaved = true;
  partial.tied_embeddings = false;
  partial.hidden_dropout = 0.3;

  auto& heads = out["rope, layer norm 1p, squared relu, head norms, window, 2 groups"] = partial;
  heads.rotary_percent = 1;
  heads.activation = kernels::activation::squared_relu;
  heads.gain_offset = 1;
  heads.qk_norm = true;
  heads.window = 2;
  heads.groups = 2;
  return out;
}

/// Stages with equal numbers of units between the first and the last.
inline std::vector<runtime::chunk_range> units_as_layers(const runtime::model_spec& model,
                                                         int stages) {
  const auto between = std::int64_t(model.units.size()) - 2;
  return runtime::split_layers(runtime::gpt_letters(between), stages, {});
}

/// A sublayer of the first layer.
inline runtime::residual_sublayer& sublayer(runtime::model_spec& of, std::size_t number) {
  auto& found = of.part<runtime::layer_spec>().sublayers.at(number);
  return *found.get_if<runtime::residual_sublayer>();
}

/// A tiny GPT with another order of sublayers and norms. The first layer begins with a feed-forward
/// sublayer with its norm after the sum. Attention has norms before and after. The second layer has
/// two attention sublayers and no other.
inline runtime::model_spec tiny_sublayers(const runtime::gpt_config& config) {
  auto out = runtime::gpt_spec(config);
  const auto attention = sublayer(out, 0);
  auto feed_forward = sublayer(out, 1);
  feed_forward.norm_after = feed_forward.norm_before;
  feed_forward.norm_before = {};
  auto both = attention;
  both.norm_after = {"post_attention_layernorm", both.norm_before->options};
  auto again = attention;
  again.name = "second_attention";
  again.norm_before->name = "second_layernorm";
  out.part<runtime::layer_spec>(0).sublayers = {feed_forward, both};
  out.part<runtime::layer_spec>(1).sublayers = {both, again};
  return out;
}

/// Element i is value(i).
template <class T, class Value>
runtime::tensor filled(runtime::stream& stream, runtime::shape extents, Value value) {
  auto out = runtime::tensor::empty<T>(stream, extents);
  for (std::int64_t i = 0; i < out.size(); ++i)
    out.template data<T>()[i] = T(value(i));
  return out;
}

/// Rows of "patches" in each sample of tiny_batch, fewer than tokens.
inline constexpr std::int64_t patches = 4;

/// B samples of random tokens, with the patches that the model reads. `masked` leaves about a third
/// of the rows out of the loss.
inline runtime::bundle tiny_batch(runtime::stream& stream,
                                  const runtime::model_spec& model,
                                  std::int64_t B,
                                  std::uint64_t seed,
                                  bool masked = false) {
  const auto T = model.sequence;
  const runtime::shape rows{B, T};
  const auto draw = [&](std::uint64_t what) {
    return [=](std::int64_t i) { return runtime::uniform(seed + what, std::uint64_t(i)); };
  };
  const auto token = [&](std::uint64_t what) {
    return [n = double(model.embedding().vocabulary), u = draw(what)](std::int64_t i) {
      return n * u(i);
    };
  };
  runtime::bundle out;
  out.add("tokens", filled<std::int32_t>(stream, rows, token(100)));
  out.add("labels", filled<std::int32_t>(stream, rows, token(200)));
  out.add("mask",
          filled<float>(stream, rows, [&](auto i) { return !masked || draw(300)(i) > 0.33; }));
  out.add("positions", filled<std::int32_t>(stream, rows, [&](auto i) { return i % T; }));
  out.add("samples", filled<std::uint64_t>(stream, {B}, [&](auto b) { return 10 * seed + b; }));
  const auto reads = flow_of(model, all_of(model)).batch;
  const auto is_read = [&](const char* name) {
    return std::find(reads.begin(), reads.end(), name) != reads.end();
  };
  if (is_read("patches"))
    out.add("patches", filled<float>(stream, {B, patches, model.streams.front().width}, draw(400)));
  if (is_read("patch_positions"))
    out.add("patch_positions",
            filled<std::int32_t>(stream, {B, patches}, [](auto i) { return i % patches; }));
  return out;
}

inline runtime::bundle tiny_batch(runtime::stream& stream,
                                  const runtime::gpt_config& c,
                                  std::int64_t B,
                                  std::uint64_t seed,
                                  bool masked = false) {
  return tiny_batch(stream, runtime::gpt_spec(c), B, seed, masked);
}

/// Shifts each value, so that no gain is 1 and no bias 0. The shift depends only on the name and
/// the element.
inline void shake(runtime::resident_store& store, double by) {
  for (const auto& e : store.entries()) {
    if (e.owner >= 0)
      continue;
    const auto& name = e.spec.tied_to.empty() ? e.spec.name : e.spec.tied_to;
    const auto key = runtime::random_key(5, name, 0);
    for (std::int64_t i = 0; i < e.valid; ++i)
      store.values()[std::size_t(store.value_offset(e) + i)]
          += float(by * runtime::standard_normal(key, std::uint64_t(i)));
  }
}

/// The stages of a model in one thread, each with its own store.
class stages {
 public:
  stages(const runtime::gpt_config& config,
         int count,
         runtime::stream& stream,
         const runtime::recompute_settings& settings = {})
      : stages(runtime::gpt_spec(config), count, stream, settings) {}

  stages(const runtime::model_spec& model,
         int count,
         runtime::stream& stream,
         const runtime::recompute_settings& settings = {})
      : stages(model, units_as_layers(model, count), stream, settings) {}

  stages(const runtime::model_spec& model,
         const std::vector<runtime::chunk_range>& ranges,
         runtime::stream& stream,
         const runtime::recompute_settings& settings = {})
      : stream_(stream) {
    for (const auto& range : ranges) {
      auto& part = parts_.emplace_back(std::make_unique<runtime::chunk>(model, range), settings);
      part.store = std::make_unique<runtime::resident_store>(part.model->units(), 1, stream.pool());
      runtime::initialise(*part.store, 1234);
      shake(*part.store, 0.25);
    }
  }

  runtime::loss_value forward(int microbatch,
                              const runtime::bundle& in,
                              const runtime::pass_settings& settings = {}) {
    runtime::bundle hidden;
    for (auto& part : parts_) {
      for (const auto& name : part.model->flow().batch)
        if (in.has(name))
          hidden.add(name, in.at(name));
      auto& pass = part.passes[microbatch] = std::make_unique<runtime::chunk_pass>(
          *part.model, part.plan, stream_, *part.store, settings);
      hidden = pass->forward(hidden);
    }
    return parts_.back().passes.at(microbatch)->loss();
  }

  /// Recomputes each block first, if its plan says so.
  void input_gradients(int microbatch) {
    runtime::bundle gradient;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      auto& pass = *part->passes.at(microbatch);
      runtime::bundle out;
      for (int b = pass.blocks() - 1; b >= 0; --b) {
        if (part->plan.blocks[std::size_t(b)].recomputed)
          pass.recompute(b);
        out = pass.input_gradients(gradient, b);
      }
      gradient = out;
    }
  }

  void weight_gradients(int microbatch) {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      auto& pass = *part->passes.at(microbatch);
      for (int b = pass.blocks() - 1; b >= 0; --b)
        pass.weight_gradients(b);
      part->passes.erase(microbatch);
    }
  }

  runtime::loss_value forward_backward(int microbatch,
                                       const runtime::bundle& in,
                                       const runtime::pass_settings& settings = {}) {
    const auto loss = forward(microbatch, in, settings);
    input_gradients(microbatch);
    weight_gradients(microbatch);
    return loss;
  }

  /// Gradients by the name of each use of a parameter, with padding rows.
  std::map<std::string, std::vector<float>> gradients() {
    std::map<std::string, std::vector<float>> out;
    for (auto& part : parts_)
      for (const auto& e : part.store->entries()) {
        const auto g = part.store->gradients(0).subspan(std::size_t(part.store->gradient_offset(e)),
                                                        std::size_t(e.size()));
        out.emplace(e.spec.name, std::vector<float>(g.begin(), g.end()));
      }
    return out;
  }

  runtime::resident_store& store(std::size_t at = 0) { return *parts_.at(at).store; }
  const runtime::chunk& model(std::size_t at = 0) const { return *parts_.at(at).model; }
  const runtime::recompute_plan& plan(std::size_t at = 0) const { return parts_.at(at).plan; }

 private:
  struct stage {
    stage(std::unique_ptr<runtime::chunk> m, const runtime::recompute_settings& settings)
        : model(std::move(m)), plan(*model, settings) {}
    std::unique_ptr<runtime::chunk> model;
    runtime::recompute_plan plan;
    std::unique_ptr<runtime::resident_store> store;
    std::map<int, std::unique_ptr<runtime::chunk_pass>> passes;
  };

  runtime::stream& stream_;
  std::deque<stage> parts_;  // passes keep the address of their plan
};

/// Mean loss over the unmasked rows.
inline double mean(const runtime::loss_value& x) {
  return x.total / std::max(x.tokens, 1.0);
}

}  // namespace troupe::tests
