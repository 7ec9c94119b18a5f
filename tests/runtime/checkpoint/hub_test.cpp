#include "runtime/checkpoint/hub.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "tests/runtime/checkpoint/hub_configs.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::deepseek_json;
using troupe::tests::gpt2_json;
using troupe::tests::llama_json;
using troupe::tests::refusal;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

/// Writes the folder of a reference case with tests/golden/gpt/hf_model.py.
void write_golden(const std::string& name, const fs::path& to) {
  const auto command = "python3 " + troupe::tests::source_dir() + "/tests/golden/gpt/hf_model.py "
                       + name + " " + to.string() + " > /dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
}

/// Element `index` of the tensor `name` of a reference case: the formula in hf_model.py.
float golden(const std::string& name, double offset, int shift, std::uint64_t index) {
  std::uint64_t seed = 0xCBF29CE484222325;
  for (const char c : name)
    seed = (seed ^ std::uint8_t(c)) * 0x100000001B3;
  std::uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return float(offset + std::ldexp(double(z >> 44) - double(1 << 19), -19 - shift));
}

// Values of hf_model.py: SHIFTS, and the shifts of the cases used here.
constexpr int tied_embedding = 4, padded_embedding = 2, gqa_head = 5, input = 2, output = 3,
              gain = 4, bias = 4;

std::vector<float> read(const hub_model& model, const std::string& name) {
  std::vector<float> out(std::size_t(model.extents(name).size()));
  model.read(name, out);
  return out;
}

/// Tensors with the expected names and shapes, in BF16, all ones.
std::vector<shard_to_write> needed_by(const gpt_config& config, const std::string& prefix) {
  static const std::vector<std::uint16_t> ones(4096, 0x3f80);
  std::vector<shard_to_write> out;
  std::map<std::string, int> seen;
  for (const auto& recipe : gpt_hub_recipes(config, prefix))
    for (const auto& rows : recipe.rows) {
      if (seen[rows.source]++ > 0)
        continue;
      out.push_back(
          whole_tensor(rows.source, stored_type::bf16, source_extents(recipe, rows), ones.data()));
    }
  return out;
}

}  // namespace

TEST_CASE("a GPT-2 is imported element by element", "[checkpoint]") {
  const std::string name = GENERATE("gpt2_learned_tied", "gpt2_padded_vocab");
  const bool with_head = name == "gpt2_learned_tied";
  const auto prefix = name + (with_head ? "/transformer." : "/");
  const scratch_folder dir;
  write_golden(name, dir.path());
  const auto model = read_hub_model(dir.path());
  const auto& c = model.config().as<gpt_config>();
  CHECK(c.vocabulary == (with_head ? 128 : 211));
  CHECK(c.hidden == (with_head ? 32 : 48));
  CHECK(c.ffn == 4 * c.hidden);
  CHECK(c.position == position_embedding::learned_absolute);
  CHECK(c.activation == troupe::kernels::activation::gelu_tanh);
  CHECK(c.tied_embeddings);
  CHECK(c.linear_bias);
  CHECK(c.hidden_dropout == 0);
  CHECK_FALSE(model.has("output_layer.weight"));
  std::int64_t parameters = 0;
  for (const auto& x : model.parameters())
    parameters += x.extents.size();
  CHECK(parameters == parameter_count(c));

  const auto C = c.hidden, D = c.head_size;
  const auto words = read(model, "embedding.word_embeddings.weight");
  CHECK(words.at(77)
        == golden(prefix + "wte.weight", 0, with_head ? tied_embedding : padded_embedding, 77));
  const auto qkv = read(model, "decoder.layers.1.self_attention.linear_qkv.weight");
  const auto qkv_bias = read(model, "decoder.layers.1.self_attention.linear_qkv.bias");
  const auto fc2 = read(model, "decoder.layers.0.mlp.linear_fc2.weight");
  const auto norm = read(model, "decoder.final_layernorm.weight");
  std::int64_t different = 0;
  for (std::int64_t h = 0; h < c.heads; ++h)
    for (std::int64_t part = 0; part < 3; ++part)
      for (std::int64_t d = 0; d < D; ++d) {
        const auto ours = (3 * h + part) * D + d, theirs = part * C + h * D + d;
        different += qkv_bias[std::size_t(ours)]
                     != golden(prefix + "h.1.attn.c_attn.bias", 0, bias, std::uint64_t(theirs));
        for (std::int64_t in = 0; in < C; ++in)
          different += qkv[std::size_t(ours * C + in)]
                       != golden(prefix + "h.1.attn.c_attn.weight",
                                 0,
                                 input,
                                 std::uint64_t(in * 3 * C + theirs));
      }
  for (std::int64_t out = 0; out < C; ++out)
    for (std::int64_t in = 0; in < c.ffn; ++in)
      different
          += fc2[std::size_t(out * c.ffn + in)]
             != golden(prefix + "h.0.mlp.c_proj.weight", 0, output, std::uint64_t(in * C + out));
  for (std::int64_t i = 0; i < C; ++i)
    different += norm[std::size_t(i)] != golden(prefix + "ln_f.weight", 1, gain, std::uint64_t(i));
  CHECK(different == 0);
}

TEST_CASE("a Llama is imported element by element", "[checkpoint]") {
  const scratch_folder dir;
  write_golden("llama_gqa_accumulate", dir.path());
  const auto model = read_hub_model(dir.path());
  const auto& c = model.config().as<gpt_config>();
  CHECK(c.groups == 2);
  CHECK(c.head_size == 8);
  CHECK(c.position == position_embedding::rope);
  CHECK(c.normalization == troupe::kernels::normalization::rms);
  CHECK(c.activation == troupe::kernels::activation::silu);
  CHECK(c.gated);
  CHECK_FALSE(c.linear_bias);
  CHECK(model.has("output_layer.weight"));

  const std::string layer = "llama_gqa_accumulate/model.layers.1.";
  const auto C = c.hidden, D = c.head_size, per_group = c.heads / c.groups * D;
  const auto qkv = read(model, "decoder.layers.1.self_attention.linear_qkv.weight");
  const auto fc1 = read(model, "decoder.layers.1.mlp.linear_fc1.weight");
  const auto logits = read(model, "output_layer.weight");
  std::int64_t different = 0;
  for (std::int64_t group = 0, row = 0; group < c.groups; ++group)
    for (std::int64_t i = 0; i < per_group + 2 * D; ++i, ++row) {
      const bool query = i < per_group, key = !query && i < per_group + D;
      const auto source = layer
                          + (query ? "self_attn.q_proj"
                             : key ? "self_attn.k_proj"
                                   : "self_attn.v_proj")
                          + ".weight";
      const auto theirs = query ? group * per_group + i : group * D + (i - per_group) % D;
      for (std::int64_t in = 0; in < C; ++in)
        different += qkv[std::size_t(row * C + in)]
                     != golden(source, 0, input, std::uint64_t(theirs * C + in));
    }
  for (std::int64_t i = 0; i < c.ffn * C; ++i) {
    different += fc1[std::size_t(i)]
                 != golden(layer + "mlp.gate_proj.weight", 0, input, std::uint64_t(i));
    different += fc1[std::size_t(c.ffn * C + i)]
                 != golden(layer + "mlp.up_proj.weight", 0, input, std::uint64_t(i));
  }
  for (std::int64_t i = 0; i < c.vocabulary * C; ++i)
    different += logits[std::size_t(i)]
                 != golden("llama_gqa_accumulate/lm_head.weight", 0, gqa_head, std::uint64_t(i));
  CHECK(different == 0);
}

TEST_CASE("a tied Llama with another rotary base has no output layer", "[checkpoint]") {
  const scratch_folder dir;
  write_golden("llama_tied_rope_theta", dir.path());
  const auto model = read_hub_model(dir.path());
  CHECK(model.config().as<gpt_config>().tied_embeddings);
  CHECK(model.config().as<gpt_config>().rotary_base == 1e6);
  CHECK(model.config().as<gpt_config>().norm_epsilon == 1e-6);
  CHECK_FALSE(model.has("output_layer.weight"));
}

TEST_CASE("a box of a parameter is that part of the whole one", "[checkpoint]") {
  const std::string name
      = GENERATE(as<std::string>{}, "gpt2_padded_vocab", "llama_gqa_accumulate", "qwen2_moe");
  const scratch_folder dir;
  write_golden(name, dir.path());
  const auto model = read_hub_model(dir.path());
  for (const auto& x : model.parameters()) {
    CAPTURE(name, x.name);
    const auto all = read(model, x.name);
    auto part = whole(x.extents);
    for (int d = 0; d < x.extents.rank(); ++d) {
      const auto begin = x.extents[d] / 3;
      part = between(part, d, begin, std::max(begin + 1, x.extents[d] - x.extents[d] / 4));
      std::vector<float> found(std::size_t(part.size())), expected(found.size());
      model.read(x.name, part, found);
      copy_common(whole(x.extents), all.data(), part, expected.data(), sizeof(float));
      CHECK(found == expected);
    }
  }
}

TEST_CASE("a Qwen 3 is a Llama with normalised queries and keys", "[checkpoint]") {
  auto config = llama_json();
  config["model_type"] = "qwen3";
  config["head_dim"] = 4;
  config["sliding_window"] = 4096;
  config["use_sliding_window"] = false;
  config["layer_types"] = {"full_attention"};
  const scratch_folder dir;
  write_text(dir / "config.json", config.dump());
  write_safetensors(dir / "model.safetensors", needed_by(gpt_from_hub(config.dump(), "it"), ""));
  const auto model = read_hub_model(dir.path());
  CHECK(model.config().as<gpt_config>().qk_norm);
  CHECK(read(model, "decoder.layers.0.self_attention.k_layernorm.weight")
        == std::vector<float>(4, 1.0F));
  std::int64_t parameters = 0;
  for (const auto& x : model.parameters())
    parameters += x.extents.size();
  CHECK(parameters == parameter_count(model.config()));
  config["layer_types"] = {"sliding_attention"};
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'layer_types'"));
  config.erase("layer_types");
  config.erase("head_dim");
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'head_dim' is missing"));
}

TEST_CASE("a DeepSeek-V3 is imported without its layer for further tokens", "[checkpoint]") {
  const auto config = deepseek_json(3);
  const auto x = gpt_from_hub(config.dump(), "it");
  const scratch_folder dir;
  write_text(dir / "config.json", config.dump());
  auto tensors = needed_by(x, "");
  const std::vector<float> more(16, 1);
  tensors.push_back(
      whole_tensor("model.layers.2.eh_proj.weight", stored_type::f32, {4, 4}, more.data()));
  write_safetensors(dir / "model.safetensors", tensors);
  const auto model = read_hub_model(dir.path());
  CHECK_FALSE(model.has("decoder.layers.2.input_layernorm.weight"));
  CHECK(read(model, "decoder.layers.1.mlp.router.expert_bias") == std::vector<float>(8, 1.0F));
  tensors.push_back(
      whole_tensor("model.layers.1.eh_proj.weight", stored_type::f32, {4, 4}, more.data()));
  write_safetensors(dir / "model.safetensors", tensors);
  CHECK_THROWS_WITH(read_hub_model(dir.path()), ContainsSubstring("model.layers.1.eh_proj"));
}

TEST_CASE("a Llama with all biases is imported with them", "[checkpoint]") {
  auto config = llama_json();
  config["attention_bias"] = config["mlp_bias"] = true;
  const scratch_folder dir;
  write_text(dir / "config.json", config.dump());
  write_safetensors(dir / "model.safetensors", needed_by(gpt_from_hub(config.dump(), "it"), ""));
  const auto model = read_hub_model(dir.path());
  CHECK(model.extents("decoder.layers.0.self_attention.linear_qkv.bias") == shape{16});
  CHECK(model.extents("decoder.layers.0.mlp.linear_fc1.bias") == shape{24});
  CHECK(read(model, "decoder.layers.0.mlp.linear_fc2.bias") == std::vector<float>(8, 1.0F));
}

TEST_CASE("a model in several files is read through its index", "[checkpoint]") {
  const scratch_folder dir;
  write_text(dir / "config.json", gpt2_json().dump());
  const auto all = needed_by(gpt_from_hub(gpt2_json().dump(), "it"), "");
  const std::span<const shard_to_write> tensors = all;
  write_safetensors(dir / "a.safetensors", tensors.first(3));
  write_safetensors(dir / "b.safetensors", tensors.subspan(3));
  nlohmann::json map;
  for (std::size_t i = 0; i < all.size(); ++i)
    map[all[i].name] = i < 3 ? "a.safetensors" : "b.safetensors";
  const auto write_index = [&] {
    write_text(dir / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  };
  write_index();
  CHECK(read(read_hub_model(dir.path()), "decoder.final_layernorm.weight")
        == std::vector<float>(4, 1.0F));
  map["wte.weight"] = "b.safetensors";
  write_index();
  CHECK_THROWS_WITH(read_hub_model(dir.path()), ContainsSubstring("'wte.weight'"));
  map["wte.weight"] = "../a.safetensors";
  write_index();
  CHECK_THROWS_WITH(read_hub_model(dir.path()), ContainsSubstring("same folder"));
}

TEST_CASE("a hub model checks names and shapes of requested parameters", "[checkpoint]") {
  const scratch_folder dir;
  write_text(dir / "config.json", gpt2_json().dump());
  write_safetensors(dir / "model.safetensors",
                    needed_by(gpt_from_hub(gpt2_json().dump(), "it"), ""));
  const auto model = read_hub_model(dir.path());
  CHECK_BREAKS("HUB-1", model.extents("decoder.nothing"));
  std::vector<float> few(1);
  CHECK_BREAKS("HUB-2", model.read("embedding.word_embeddings.weight", few));
  CHECK_BREAKS("HUB-2", model.read("embedding.word_embeddings.weight", {{0, 0}, {6, 4}}, few));
}

TEST_CASE("a folder that does not match the model exactly is refused", "[checkpoint]") {
  const scratch_folder dir;
  CHECK_THROWS_WITH(read_hub_model(dir.path()), ContainsSubstring("config.json"));
  write_text(dir / "config.json", gpt2_json().dump());
  CHECK_THROWS_WITH(read_hub_model(dir.path()), ContainsSubstring("model.safetensors"));
  const auto needed = needed_by(gpt_from_hub(gpt2_json().dump(), "it"), "");
  const auto with = [&](auto change) {
    auto tensors = needed;
    change(tensors);
    write_safetensors(dir / "model.safetensors", tensors);
    try {
      read_hub_model(dir.path());
      return std::string();
    } catch (const input_error& failure) {
      return std::string(failure.what());
    }
  };
  const std::vector<std::uint16_t> twos(64, 0x4000);
  CHECK(with([](auto&) {}).empty());
  CHECK_THAT(with([](auto& x) { x.pop_back(); }),
             ContainsSubstring("'ln_f.bias' of the model in config.json is missing"));
  CHECK_THAT(with([&](auto& x) {
               x.back() = whole_tensor("ln_f.bias", stored_type::bf16, {5}, twos.data());
             }),
             ContainsSubstring("'ln_f.bias' is BF16 (5)"));
  CHECK_THAT(with([](auto& x) { x.back().elements.type = stored_type::i16; }),
             ContainsSubstring("I16"));
  CHECK_THAT(with([](auto& x) {
               x.push_back(x.back());
               x.back().name = "h.0.attn.q_norm.weight";
             }),
             ContainsSubstring("'h.0.attn.q_norm.weight'"));
  CHECK(with([](auto& x) {
          x.push_back(x.back());
          x.back().name = "h.0.attn.masked_bias";
        }).empty());
  CHECK(with([](auto& x) {
          x.push_back(x.front());
          x.back().name = "lm_head.weight";
        }).empty());
  CHECK_THAT(with([&](auto& x) {
               x.push_back(x.front());
               x.back().name = "lm_head.weight";
               x.back().elements.data = twos.data();
             }),
             ContainsSubstring("tie_word_embeddings"));
  auto huge = gpt2_json();
  huge["n_layer"] = 2000000000;
  write_text(dir / "config.json", huge.dump());
  CHECK_THAT(with([](auto&) {}), ContainsSubstring("parameters"));
}
