// The models of tests/golden/gpt: shapes and parameters under Troupe's names.
//
// The hub reader reads the families that it knows. This file translates Nemotron and Persimmon.

#pragma once

#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/file/file.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

struct golden_model {
  runtime::gpt_config shape;
  std::function<void(const std::string& parameter, std::span<float>)> read;
};

/// Pairs of a stem in Troupe's names and its replacement in the file.
using renaming = std::vector<std::pair<std::string, std::string>>;

inline std::string renamed(std::string name, const renaming& by) {
  for (const auto& [ours, theirs] : by)
    if (const auto at = name.find(ours); at != std::string::npos)
      name.replace(at, ours.size(), theirs);
  return name;
}

inline const runtime::stored_tensor& stored(const runtime::safetensors_file& file,
                                            const std::string& name) {
  const auto* found = file.find(name);
  if (found == nullptr)
    throw runtime::input_error("{} has no tensor '{}'", file.path().string(), name);
  return *found;
}

/// Reads [queries key value] of each group from three tensors.
inline void read_qkv(const runtime::safetensors_file& file,
                     const runtime::gpt_config& c,
                     const std::string& stem,
                     std::span<float> out) {
  std::size_t done = 0;
  for (std::int64_t group = 0; group < c.groups; ++group)
    for (const auto& [part, heads] : {std::pair{"q_proj.weight", c.heads / c.groups},
                                      std::pair{"k_proj.weight", std::int64_t(1)},
                                      std::pair{"v_proj.weight", std::int64_t(1)}}) {
      const auto size = heads * c.head_size * c.hidden;
      file.read(stored(file, stem + part), group * size, out.subspan(done, std::size_t(size)));
      done += std::size_t(size);
    }
}

/// The common shape of Nemotron and Persimmon: LayerNorm, squared ReLU, partial RoPE.
inline runtime::gpt_config squared_relu_shape(const nlohmann::json& config) {
  runtime::gpt_config x;
  x.layers = config["num_hidden_layers"];
  x.hidden = config["hidden_size"];
  x.heads = config["num_attention_heads"];
  x.groups = config.value("num_key_value_heads", x.heads);
  x.head_size = x.hidden / x.heads;
  x.ffn = config["intermediate_size"];
  x.sequence = x.positions = config["max_position_embeddings"];
  x.vocabulary = x.padded_vocabulary = config["vocab_size"];
  x.position = runtime::position_embedding::rope;
  x.rotary_base = config["rope_parameters"]["rope_theta"];
  x.rotary_percent = config["rope_parameters"]["partial_rotary_factor"];
  x.activation = kernels::activation::squared_relu;
  x.tied_embeddings = false;
  x.hidden_dropout = x.attention_dropout = 0;
  return x;
}

inline golden_model nemotron(const std::filesystem::path& folder, const nlohmann::json& config) {
  golden_model out{squared_relu_shape(config), {}};
  out.shape.norm_epsilon = config["norm_eps"];
  out.shape.gain_offset = 1;
  out.shape.linear_bias = false;
  out.read = [c = out.shape,
              file = std::make_shared<runtime::safetensors_file>(folder / "model.safetensors")](
                 const std::string& name, std::span<float> to) {
    const auto theirs = renamed(name,
                                {{"embedding.word_embeddings", "model.embed_tokens"},
                                 {"decoder.final_layernorm", "model.norm"},
                                 {"output_layer", "lm_head"},
                                 {"decoder.", "model."},
                                 {"self_attention.linear_proj", "self_attn.o_proj"},
                                 {"self_attention.linear_qkv.weight", "self_attn."},
                                 {"pre_mlp_layernorm", "post_attention_layernorm"},
                                 {"linear_fc1", "up_proj"},
                                 {"linear_fc2", "down_proj"}});
    if (theirs.ends_with("self_attn."))
      read_qkv(*file, c, theirs, to);
    else
      file->read(stored(*file, theirs), 0, to);
  };
  return out;
}

inline golden_model persimmon(const std::filesystem::path& folder, const nlohmann::json& config) {
  golden_model out{squared_relu_shape(config), {}};
  out.shape.norm_epsilon = config["layer_norm_eps"];
  out.shape.qk_norm = true;
  out.read = [file = std::make_shared<runtime::safetensors_file>(folder / "model.safetensors")](
                 const std::string& name, std::span<float> to) {
    const auto theirs = renamed(name,
                                {{"embedding.word_embeddings", "model.embed_tokens"},
                                 {"output_layer", "lm_head"},
                                 {"decoder.", "model."},
                                 {"self_attention.", "self_attn."},
                                 {"linear_qkv", "query_key_value"},
                                 {"linear_proj", "dense"},
                                 {"pre_mlp_layernorm", "post_attention_layernorm"},
                                 {"linear_fc1", "dense_h_to_4h"},
                                 {"linear_fc2", "dense_4h_to_h"}});
    file->read(stored(*file, theirs), 0, to);
  };
  return out;
}

inline golden_model from_hub(const std::filesystem::path& folder) {
  auto hub = std::make_shared<runtime::hub_model>(runtime::read_hub_model(folder));
  return {hub->config().as<runtime::gpt_config>(),
          [hub](const std::string& name, std::span<float> to) { hub->read(name, to); }};
}

/// `folder`: written by hf_model.py.
inline golden_model open_golden_model(const std::filesystem::path& folder) {
  const auto config = nlohmann::json::parse(runtime::read_text(folder / "config.json"));
  const std::string kind = config["model_type"];
  if (kind == "nemotron")
    return nemotron(folder, config);
  if (kind == "persimmon")
    return persimmon(folder, config);
  return from_hub(folder);
}

}  // namespace troupe::tests
