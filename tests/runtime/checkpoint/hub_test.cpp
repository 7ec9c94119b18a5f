#include "runtime/checkpoint/hub.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

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

/// Tensors with the expected names and shapes, in BF16, all ones.
std::vector<shard_to_write> needed_by(const gpt_config& config, const std::string& prefix) {
  static const std::vector<std::uint16_t> ones(4096, 0x3f80);
  std::vector<shard_to_write> out;
  std::map<std::string, int> seen;
  for (const auto& recipe : gpt_hub_recipes(config, prefix))
    for (const auto& rows : recipe.rows) {
      if (seen[rows.source]++ > 0)
        continue;
      shape extents = {rows.of};
      if (recipe.extents.rank() == 2)
        extents = recipe.transposed ? shape{recipe.extents[1], rows.of}
                                    : shape{rows.of, recipe.extents[1]};
      out.push_back(whole_tensor(rows.source, stored_type::bf16, extents, ones.data()));
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
  CHECK(c.activation == troupe::kernels::activation::swiglu);
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
  CHECK(seen == 5);
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
