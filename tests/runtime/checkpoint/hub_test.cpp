#include "runtime/checkpoint/hub.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/families.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"
#include "tests/support/published_gpts.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
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

std::string refusal(const std::string& config_json) {
  try {
    gpt_from_hub(config_json, "'config.json'");
    return "";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

nlohmann::json gpt2_json() {
  return {{"model_type", "gpt2"},
          {"vocab_size", 5},
          {"n_positions", 3},
          {"n_embd", 4},
          {"n_layer", 1},
          {"n_head", 2},
          {"n_inner", 6}};
}

nlohmann::json llama_json() {
  return {{"model_type", "llama"},
          {"vocab_size", 5},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-5},
          {"rope_scaling", nullptr}};
}

nlohmann::json mixtral_json() {
  auto out = llama_json();
  out["model_type"] = "mixtral";
  out["num_local_experts"] = 4;
  out["num_experts_per_tok"] = 2;
  return out;
}

nlohmann::json qwen_moe_json() {
  auto out = llama_json();
  out["model_type"] = "qwen2_moe";
  out["num_hidden_layers"] = 4;
  out["num_experts"] = 4;
  out["num_experts_per_tok"] = 2;
  out["moe_intermediate_size"] = 3;
  out["shared_expert_intermediate_size"] = 5;
  out["decoder_sparse_step"] = 2;
  return out;
}

nlohmann::json deepseek_json(int version) {
  auto out = llama_json();
  const bool third = version == 3;
  out["model_type"] = third ? "deepseek_v3" : "deepseek_v2";
  out["num_hidden_layers"] = 2;
  out["num_key_value_heads"] = 4;
  out["rms_norm_eps"] = 1e-6;
  out["q_lora_rank"] = 3;
  out["kv_lora_rank"] = 2;
  out["qk_nope_head_dim"] = 4;
  out["qk_rope_head_dim"] = 2;
  out["v_head_dim"] = 5;
  out["n_routed_experts"] = 8;
  out["num_experts_per_tok"] = 4;
  out["moe_intermediate_size"] = 3;
  out["n_shared_experts"] = 2;
  out["first_k_dense_replace"] = 1;
  out["n_group"] = 4;
  out["topk_group"] = 2;
  out["topk_method"] = third ? "noaux_tc" : "greedy";
  out["scoring_func"] = third ? "sigmoid" : "softmax";
  out["norm_topk_prob"] = third;
  out["routed_scaling_factor"] = third ? 2.5 : 1.0;
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

TEST_CASE("unsupported settings in config.json are refused by name", "[checkpoint]") {
  const auto refused = [](nlohmann::json config, const char* key, const nlohmann::json& value) {
    config[key] = value;
    INFO(key);
    CHECK_THAT(refusal(config.dump()), ContainsSubstring(std::string("'") + key + "'"));
  };
  CHECK(refusal(gpt2_json().dump()).empty());
  CHECK(refusal(llama_json().dump()).empty());
  refused(gpt2_json(), "model_type", "gpt_neox");
  refused(gpt2_json(), "activation_function", "relu");
  refused(gpt2_json(), "scale_attn_by_inverse_layer_idx", true);
  refused(gpt2_json(), "scale_attn_weights", false);
  refused(gpt2_json(), "add_cross_attention", true);
  refused(gpt2_json(), "quantization_config", {{"bits", 4}});
  refused(gpt2_json(), "n_head", 3);
  refused(gpt2_json(), "n_layer", 0);
  refused(gpt2_json(), "n_layer", 1.5);
  refused(gpt2_json(), "n_layer", nullptr);
  refused(gpt2_json(), "tie_word_embeddings", 1);
  refused(llama_json(), "hidden_act", "gelu");
  const auto stretched = [](const nlohmann::json& rope) {
    auto config = llama_json();
    config["rope_scaling"] = rope;
    return refusal(config.dump());
  };
  CHECK_THAT(stretched({{"type", "dynamic"}, {"factor", 2.0}}), ContainsSubstring("'type'"));
  CHECK_THAT(stretched({{"type", "linear"}, {"factor", 0.5}}),
             ContainsSubstring("`model.rotary_interpolation`"));
  CHECK_THAT(stretched({{"rope_type", "llama3"}}),
             ContainsSubstring("`model.scaling_factor` is 0"));
  CHECK_THAT(stretched({{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 1.0}}),
             ContainsSubstring("'attention_factor'"));
  CHECK_THAT(stretched({{"rope_type", "yarn"}, {"factor", 4.0}, {"short_factor", 1.0}}),
             ContainsSubstring("'short_factor'"));
  refused(llama_json(), "sliding_window", 4096);
  refused(llama_json(), "attention_bias", true);
  refused(llama_json(), "mlp_bias", true);
  refused(llama_json(), "partial_rotary_factor", 0.5);
  refused(llama_json(), "num_key_value_heads", 3);
  refused(llama_json(), "rms_norm_eps", "1e-5");
  auto scaled = llama_json();
  scaled["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 10000.0}};
  CHECK_THAT(refusal(scaled.dump()), ContainsSubstring("'rope_type' is \"dynamic\""));
  CHECK_THAT(refusal("[]"), ContainsSubstring("object"));
  CHECK_THAT(refusal("{"), ContainsSubstring("not JSON"));
}

TEST_CASE("an impossible size is refused, in any field and notation", "[checkpoint][malicious]") {
  const auto refused = [](const nlohmann::json& config, std::initializer_list<const char*> fields) {
    for (const auto* field : fields)
      for (const std::string written : {"-1",
                                        "0",
                                        "1.5",
                                        "1000000000.0",
                                        "\"2\"",
                                        "true",
                                        "[]",
                                        "2147483648",
                                        "9223372036854775808",
                                        "18446744073709551616"}) {
        auto changed = config;
        changed[field] = "here";
        auto text = changed.dump();
        text.replace(text.find("\"here\""), 6, written);
        INFO(field << ' ' << written);
        CHECK_THAT(refusal(text), ContainsSubstring(std::string("'") + field + "'"));
      }
  };
  refused(gpt2_json(), {"n_layer", "n_embd", "n_head", "n_inner", "n_positions", "vocab_size"});
  refused(llama_json(),
          {"num_hidden_layers",
           "hidden_size",
           "num_attention_heads",
           "num_key_value_heads",
           "head_dim",
           "intermediate_size",
           "vocab_size",
           "max_position_embeddings"});
}

TEST_CASE("the rotary base is read in both formats of transformers", "[checkpoint]") {
  auto config = llama_json();
  CHECK(gpt_from_hub(config.dump(), "it").rotary_base == 10000);
  config["rope_theta"] = 500000;
  CHECK(gpt_from_hub(config.dump(), "it").rotary_base == 500000);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  CHECK(gpt_from_hub(config.dump(), "it").rotary_base == 1e6);
}

TEST_CASE("rope_scaling takes precedence over rope_parameters, as in transformers",
          "[checkpoint]") {
  auto config = llama_json();
  config["max_position_embeddings"] = 64;
  config["rope_theta"] = 500000.0;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  auto x = gpt_from_hub(config.dump(), "it");
  CHECK(x.scaling == rope_scaling::none);
  config["rope_scaling"] = nlohmann::json::object();  // false for Python
  CHECK(gpt_from_hub(config.dump(), "it") == x);
  config["rope_scaling"]
      = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.scaling == rope_scaling::yarn);
  CHECK(x.scaling_factor == 4);
  CHECK(x.scaling_positions == 16);
  CHECK(x.rotary_base == 500000);

  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  config["rope_parameters"] = {{"rope_type", "llama3"}, {"factor", 8.0}, {"rope_theta", 500000.0}};
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.scaling == rope_scaling::none);
  CHECK(x.rotary_interpolation == 2);

  config.erase("rope_theta");  // transformers would take 10000
  CHECK_THAT(refusal(config.dump()),
             ContainsSubstring("'rope_scaling' and 'rope_parameters'") && ContainsSubstring("10000")
                 && ContainsSubstring("500000"));
  config["rope_scaling"]["rope_theta"] = 500000;
  CHECK(gpt_from_hub(config.dump(), "it") == x);
}

TEST_CASE("two names of one field of a GPT-2 must agree", "[checkpoint]") {
  auto config = gpt2_json();
  config["hidden_size"] = 4;
  CHECK(gpt_from_hub(config.dump(), "it") == gpt_from_hub(gpt2_json().dump(), "it"));
  config["hidden_size"] = 8;
  CHECK_THAT(refusal(config.dump()),
             ContainsSubstring("'n_embd' is 4") && ContainsSubstring("'hidden_size'"));
}

TEST_CASE("rotary scaling of the hub equals that of transformers", "[checkpoint][golden]") {
  const auto golden = nlohmann::json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/rotary/golden.json"));
  int seen = 0;
  for (const auto& c : golden["cases"]) {
    if (c["by"] != "transformers")
      continue;
    ++seen;
    auto config = llama_json();
    config.update(c["config"]);
    const auto check = [&] {
      const auto x = gpt_from_hub(config.dump(), "it");
      const auto found = rotary_frequencies(rotary_of(x));
      const auto expected = c["frequencies"].get<std::vector<float>>();
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(found[i] == Catch::Approx(expected[i]).epsilon(2e-6));
      CHECK(rotary_concentration(rotary_of(x)) == Catch::Approx(c["concentration"].get<double>()));
    };
    check();
    config["rope_theta"] = config["rope_parameters"]["rope_theta"];  // the format of version 4
    config["rope_parameters"].erase("rope_theta");
    config["rope_scaling"] = config["rope_parameters"];
    config.erase("rope_parameters");
    check();
  }
  CHECK(seen == 6);
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

TEST_CASE("a Mixtral is a Mistral with experts in all layers", "[checkpoint]") {
  const auto x = gpt_from_hub(mixtral_json().dump(), "it");
  CHECK(x.experts.number == 4);
  CHECK(x.experts.chosen == 2);
  CHECK(x.experts.ffn == 12);
  CHECK(x.experts.score == "softmax");
  CHECK_FALSE(x.experts.pre_softmax);
  CHECK(x.expert_layers() == std::vector<bool>{true});
  CHECK(x.window == -1);
  auto config = mixtral_json();
  config["sliding_window"] = 4;
  CHECK(gpt_from_hub(config.dump(), "it").window == 3);
  config.erase("rms_norm_eps");  // transformers' defaults of a Mixtral
  CHECK(gpt_from_hub(config.dump(), "it").norm_epsilon == 1e-5);
  CHECK(gpt_from_hub(config.dump(), "it").rotary_base == 1e6);
  config["num_experts_per_tok"] = 5;
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("`model.experts.chosen` is 5 of 4"));
}

TEST_CASE("a Qwen-MoE says which layers have experts, and how weights are normalised",
          "[checkpoint]") {
  auto config = qwen_moe_json();
  auto x = gpt_from_hub(config.dump(), "it");
  CHECK(x.qkv_bias);
  CHECK_FALSE(x.qk_norm);
  CHECK(x.ffn == 12);
  CHECK(x.experts.ffn == 3);
  CHECK(x.experts.shared_ffn == 5);
  CHECK(x.experts.shared_gate);
  CHECK(x.experts.pre_softmax);
  CHECK(x.expert_layers() == std::vector<bool>{false, true, false, true});
  config["mlp_only_layers"] = {1};
  config["norm_topk_prob"] = true;
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.experts.layers == "([0]*3+[1])");
  CHECK_FALSE(x.experts.pre_softmax);
  config["mlp_only_layers"] = {4};
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'mlp_only_layers'"));
  config["mlp_only_layers"] = 1;
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'mlp_only_layers' is 1"));
  config["mlp_only_layers"] = {1, 3};
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("`model.experts.layers`"));

  config = qwen_moe_json();
  config["model_type"] = "qwen3_moe";
  config["head_dim"] = 4;
  config["decoder_sparse_step"] = 1;
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.qk_norm);
  CHECK_FALSE(x.qkv_bias);
  CHECK(x.experts.shared_ffn == 0);
  CHECK(x.experts.layers == "1");
  config.erase("head_dim");
  config.erase("num_experts");
  config["num_local_experts"] = 6;
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.head_size == 2);
  CHECK(x.experts.number == 6);
  config["num_experts"] = 4;
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'num_local_experts' is 6"));
}

TEST_CASE("the choice of a DeepSeek follows its config.json", "[checkpoint]") {
  auto config = deepseek_json(3);
  auto x = gpt_from_hub(config.dump(), "it");
  CHECK(x.latent
        == latent_config{.q_rank = 3, .kv_rank = 2, .own_size = 4, .rotated = 2, .value_size = 5});
  CHECK(x.head_size == 6);
  CHECK(x.groups == 4);
  CHECK(x.rotary_interleaved);
  CHECK(x.experts.score == "sigmoid");
  CHECK(x.experts.expert_bias);
  CHECK(x.experts.scale == 2.5);
  CHECK(x.experts.groups == 4);
  CHECK(x.experts.group_topk == 2);
  CHECK(x.experts.group_score == "sum");
  CHECK(x.experts.shared_ffn == 6);
  CHECK(x.experts.layers == "([0]+[1])");
  config["topk_group"] = 4;  // all groups: no restriction
  config.erase("routed_scaling_factor");
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.experts.groups == 0);
  CHECK(x.experts.scale == 2.5);  // transformers' default

  CHECK(x.latent.norm_epsilon == 0);  // that of the other norms
  config["rms_norm_eps"] = 1e-5;      // as Moonlight has it
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.norm_epsilon == 1e-5);
  CHECK(x.latent.norm_epsilon == 1e-6);

  const auto refused = [](int version, const char* key, const nlohmann::json& value) {
    auto changed = deepseek_json(version);
    changed[key] = value;
    INFO(key);
    CHECK_THAT(refusal(changed.dump()), ContainsSubstring(std::string("'") + key + "'"));
  };
  refused(3, "norm_topk_prob", false);
  refused(3, "scoring_func", "softmax");
  refused(3, "topk_method", "greedy");
  refused(3, "topk_group", 1);
  refused(3, "num_experts_per_tok", 1);
  refused(3, "num_key_value_heads", 2);
  refused(3, "moe_layer_freq", 2);
  refused(3, "attention_bias", true);
  refused(3, "kv_lora_rank", 0);
  refused(3, "n_shared_experts", nullptr);
  refused(2, "norm_topk_prob", true);
  refused(2, "scoring_func", "sigmoid");
  refused(2, "topk_method", "noaux_tc");
  config.erase("q_lora_rank");
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'q_lora_rank' is missing"));
  config["q_lora_rank"] = 3;
  config["num_hidden_layers"] = 4;
  config.erase("first_k_dense_replace");
  CHECK(gpt_from_hub(config.dump(), "it").experts.layers == "([0]*3+[1])");

  config = deepseek_json(2);
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.experts.score == "softmax");
  CHECK(x.experts.pre_softmax);
  CHECK_FALSE(x.experts.expert_bias);
  CHECK(x.experts.groups == 0);
  config["topk_method"] = "group_limited_greedy";
  config["q_lora_rank"] = nullptr;
  config.erase("first_k_dense_replace");
  x = gpt_from_hub(config.dump(), "it");
  CHECK(x.experts.groups == 4);
  CHECK(x.experts.group_score == "max");
  CHECK(x.latent.q_rank == 0);
  CHECK(x.experts.layers == "1");
}

TEST_CASE("a Kimi K2 is a DeepSeek-V3 whose file has all fields that decide it", "[checkpoint]") {
  auto config = deepseek_json(3);
  config["n_group"] = config["topk_group"] = 1;
  config["rope_theta"] = 50000.0;
  config["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 4.0},
                            {"beta_fast", 1.0},
                            {"beta_slow", 1.0},
                            {"original_max_position_embeddings", 16},
                            {"mscale", 1.0},
                            {"mscale_all_dim", 1.0}};
  const auto expected = gpt_from_hub(config.dump(), "it");
  CHECK(expected.yarn_mscale_all == 1);
  config["model_type"] = "kimi_k2";
  CHECK(gpt_from_hub(config.dump(), "it") == expected);
  CHECK(hub_config(config.dump(), "it") == model_description(expected));
  for (const auto* field : {"rope_theta",
                            "max_position_embeddings",
                            "rms_norm_eps",
                            "routed_scaling_factor",
                            "first_k_dense_replace",
                            "scoring_func",
                            "topk_method",
                            "norm_topk_prob"}) {
    auto lacking = config;
    lacking.erase(field);
    CHECK_THAT(refusal(lacking.dump()),
               ContainsSubstring(fmt::format("'{}' is missing", field))
                   && ContainsSubstring("add the model's own value to config.json"));
  }
  config["scoring_func"] = "softmax";
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'scoring_func' is \"softmax\""));
}

TEST_CASE("YaRN of latent attention has both factors", "[checkpoint]") {
  auto config = deepseek_json(3);
  config["max_position_embeddings"] = 64;
  config["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 4.0},
                            {"original_max_position_embeddings", 16},
                            {"mscale", 1.0},
                            {"mscale_all_dim", 1.0}};
  const auto rotary = rotary_of(gpt_from_hub(config.dump(), "it"));
  CHECK(rotary.head_size == 2);
  CHECK(rotary_concentration(rotary) == 1);
  const auto m = 0.1 * std::log(4.0) + 1;
  CHECK(latent_concentration(rotary) == Catch::Approx(m * m));
  config["rope_scaling"].erase("mscale");
  CHECK_THAT(refusal(config.dump()), ContainsSubstring("'mscale_all_dim'"));
}

TEST_CASE("published models with experts are read from their config.json, and written again",
          "[checkpoint][golden]") {
  const auto all = nlohmann::json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/gpt/published.json"));
  std::map<std::string, gpt_config> models;
  for (const auto& [name, model] : all["models"].items()) {
    CAPTURE(name);
    const auto x = gpt_from_hub(model["config"].dump(), "it");
    CHECK(parameter_count(x) == model["parameters"].get<std::int64_t>());
    CHECK(gpt_from_hub(gpt_to_hub(x), "it") == x);
    models[name] = x;
  }
  const auto is = [](const gpt_config& x, gpt_config expected) {
    expected.sequence = x.sequence;  // a run's own
    return x == expected;
  };
  CHECK(is(models.at("mistralai/Mixtral-8x7B-v0.1"), troupe::tests::mixtral_8x7b()));
  CHECK(is(models.at("Qwen/Qwen3-30B-A3B"), troupe::tests::qwen3_30b_a3b()));
  CHECK(is(models.at("deepseek-ai/DeepSeek-V3"), troupe::tests::deepseek_v3()));

  const auto& second = models.at("deepseek-ai/DeepSeek-V2");
  CHECK(second.experts.groups == 8);
  CHECK(second.experts.group_topk == 3);
  CHECK(second.experts.group_score == "max");
  CHECK(second.experts.scale == 16);
  CHECK(second.yarn_mscale == 0.707);
  CHECK(second.yarn_mscale_all == 0.707);
  const auto& lite = models.at("deepseek-ai/DeepSeek-V2-Lite");
  CHECK(lite.experts.groups == 0);
  CHECK(lite.experts.layers == "([0]+[1]*26)");
  const auto& moonlight = models.at("moonshotai/Moonlight-16B-A3B");
  CHECK(moonlight.latent.q_rank == 0);
  CHECK(moonlight.latent.norm_epsilon == 1e-6);
  CHECK(moonlight.norm_epsilon == 1e-5);
  CHECK(moonlight.experts.groups == 0);
  CHECK(moonlight.experts.scale == 2.446);
  CHECK(moonlight.experts.expert_bias);
  const auto& small = models.at("Qwen/Qwen1.5-MoE-A2.7B");
  CHECK(small.experts.shared_gate);
  CHECK(small.experts.pre_softmax);
  CHECK(small.qkv_bias);
  CHECK(small.window == -1);  // of its file, but off
  CHECK(models.at("allenai/OLMoE-1B-7B-0924").qk_norm_rows);
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
