#include "runtime/checkpoint/gguf_model.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

constexpr const char* llama
    = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 32,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0})";

/// The llama with these fields in place of its own.
nlohmann::json like_llama(const nlohmann::json& fields = nlohmann::json::object()) {
  auto out = json_value(llama);
  out.update(fields);
  return out;
}

const std::map<std::string, nlohmann::json>& kinds() {
  static const nlohmann::json moe = {{"num_experts", 4}, {"num_experts_per_tok", 2}};
  const auto with_moe = [](nlohmann::json fields) {
    fields.update(moe);
    return like_llama(fields);
  };
  static const std::map<std::string, nlohmann::json> all = {
      {"llama", like_llama()},
      {"tied", like_llama({{"tie_word_embeddings", true}})},
      {"biases", like_llama({{"attention_bias", true}, {"mlp_bias", true}})},
      {"linear", like_llama({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}})},
      {"yarn",
       like_llama(
           {{"rope_scaling",
             {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}}}})},
      {"llama3",
       like_llama({{"rope_scaling",
                    {{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 32}}}})},
      {"qwen2", like_llama({{"model_type", "qwen2"}})},
      {"qwen3", like_llama({{"model_type", "qwen3"}, {"head_dim", 8}})},
      {"mixtral",
       like_llama(
           {{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}})},
      {"qwen2moe",
       with_moe({{"model_type", "qwen2_moe"},
                 {"moe_intermediate_size", 32},
                 {"norm_topk_prob", false},
                 {"shared_expert_intermediate_size", 48}})},
      {"qwen3moe",
       with_moe(
           {{"model_type", "qwen3_moe"}, {"moe_intermediate_size", 32}, {"norm_topk_prob", true}})},
      {"olmoe", with_moe({{"model_type", "olmoe"}, {"norm_topk_prob", false}})},
      {"gpt2",
       {{"model_type", "gpt2"},
        {"vocab_size", 32},
        {"n_positions", 16},
        {"n_embd", 64},
        {"n_layer", 2},
        {"n_head", 4}}}};
  return all;
}

model_description model_of(const nlohmann::json& config) {
  return hub_config(json_text(config), "config");
}

/// Other numbers for each parameter and element.
void fill(const std::string& name, const box& part, std::span<float> out) {
  const auto seed = std::hash<std::string>()(name) % 1000;
  std::vector<std::int64_t> at(std::size_t(part.extents.rank()), 0);
  for (auto& x : out) {
    std::int64_t number = 0;
    for (int axis = 0; axis < part.extents.rank(); ++axis)
      number = number * 97 + part.first[axis] + at[std::size_t(axis)];
    x = float(double(seed) * 1e-3 + double(number % 8191) * 1e-4 - 0.5);
    for (int axis = part.extents.rank() - 1; axis >= 0; --axis) {
      if (++at[std::size_t(axis)] < part.extents[axis])
        break;
      at[std::size_t(axis)] = 0;
    }
  }
}

/// Writes the model and opens it again.
fs::path written(const model_description& model, block_type type, const scratch_folder& folder) {
  hub_export what;
  what.model = model;
  const auto file = folder / "model.gguf";
  write_gguf_model(file, what, type, fill);
  return file;
}

}  // namespace

TEST_CASE("a model that is written as GGUF is read with the same settings and bits", "[gguf]") {
  for (const auto& [kind, config] : kinds()) {
    INFO(kind);
    const scratch_folder folder;
    const auto model = model_of(config);
    const auto file = written(model, block_type::f32, folder);
    const auto read = read_hub_model(folder_of_gguf(file, folder / "cache"));
    CHECK(model.family().hub()->is_same_function(read.config(), model));
    CHECK(read.config().sequence() == model.sequence());
    for (const auto& x : read.parameters()) {
      std::vector<float> values(std::size_t(x.extents.size())), expected(values.size());
      read.read(x.name, values);
      fill(x.name, whole(x.extents), expected);
      INFO(x.name);
      CHECK(values == expected);
    }
  }
}

TEST_CASE("only tensors of a GPT have places in a file", "[gguf]") {
  const auto model = model_of(like_llama());
  const auto plan = model.family().hub()->gguf_of(model);
  CHECK(plan.place("model.layers.3.mlp.down_proj.weight").tensor == "blk.3.ffn_down.weight");
  CHECK_BREAKS("GGUF-7", plan.place("model.layers.3.mlp.other.weight"));
}

TEST_CASE("rows of queries of a Llama are pairs in the file", "[gguf]") {
  const scratch_folder folder;
  const auto file = written(model_of(like_llama()), block_type::f32, folder);
  const gguf_file in(file);
  const auto* const q = in.find_tensor("blk.0.attn_q.weight");
  REQUIRE(q != nullptr);
  std::vector<float> rows(64 * 64), fused(128 * 64);
  in.read(*q, 0, rows);
  fill("decoder.layers.0.self_attention.linear_qkv.weight", whole({128, 64}), fused);
  // Row 1 of the file is the second element of the first pair: row 8 of a head of 16.
  CHECK(std::equal(rows.begin() + 64, rows.begin() + 128, fused.begin() + 8 * 64));
  CHECK(std::equal(rows.begin() + 128, rows.begin() + 192, fused.begin() + 64));
  CHECK(*in.find("llama.attention.head_count_kv") == 2);
  CHECK(*in.find("general.file_type") == 0);
}

TEST_CASE("quantised files have the announced size and near numbers", "[gguf]") {
  for (const auto type : {block_type::f16, block_type::bf16, block_type::q8_0, block_type::q4_k}) {
    const scratch_folder folder;
    const auto model = model_of(like_llama({{"hidden_size", 256}, {"head_dim", 64}}));
    const auto file = written(model, type, folder);
    hub_export what;
    what.model = model;
    std::size_t bytes = 0;
    const gguf_file in(file);
    for (const auto& x : in.tensors())
      bytes += x.bytes;
    CHECK(bytes == gguf_model_bytes(what, type));
    CHECK(in.find_tensor("blk.0.attn_q.weight")->type == type);
    CHECK(in.find_tensor("blk.0.attn_norm.weight")->type == block_type::f32);
    // Rows of 96 are not whole blocks of 256.
    CHECK(in.find_tensor("blk.0.ffn_down.weight")->type
          == (type == block_type::q4_k ? block_type::q8_0 : type));
    const auto read = read_hub_model(folder_of_gguf(file, folder / "cache"));
    for (const auto& x : read.parameters()) {
      std::vector<float> values(std::size_t(x.extents.size())), expected(values.size());
      read.read(x.name, values);
      fill(x.name, whole(x.extents), expected);
      INFO(x.name);
      // Numbers are below 1.4 and a block has at most a spread of 1: sixteen levels.
      for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(std::abs(values[i] - expected[i]) < (type == block_type::q4_k ? 0.06F : 0.01F));
    }
  }
}

TEST_CASE("models that llama.cpp computes in another way are not written", "[gguf]") {
  const auto refusal = [](const nlohmann::json& config) {
    const scratch_folder folder;
    try {
      written(model_of(config), block_type::f32, folder);
      return std::string();
    } catch (const input_error& failure) {
      CHECK(!fs::exists(folder / "model.gguf"));
      return std::string(failure.what());
    }
  };
  CHECK_THAT(refusal(like_llama({{"model_type", "mistral"}, {"sliding_window", 8}})),
             ContainsSubstring("no `model.window`"));
  auto moe = kinds().at("qwen3moe");
  moe["norm_topk_prob"] = false;
  CHECK_THAT(refusal(moe), ContainsSubstring("no `model.experts.pre_softmax`"));
  auto exact = kinds().at("gpt2");
  exact["activation_function"] = "gelu";
  CHECK_THAT(refusal(exact), ContainsSubstring("GELU by tanh"));
}

TEST_CASE("factors of rotary pairs that are not those of a Llama 3.1 are refused", "[gguf]") {
  auto kind = kinds().at("llama3");
  const auto model = model_of(kind);
  const auto& hub = *model.family().hub();
  const auto plan = hub.gguf_of(model);
  const hub_fields metadata(json_value(json_text(plan.metadata)), "'x.gguf'");
  const auto refusal = [&](const std::vector<float>& factors) {
    try {
      hub.gguf_config({metadata, [](std::string_view) { return false; }, 32, factors});
      return std::string();
    } catch (const input_error& failure) {
      return std::string(failure.what());
    }
  };
  CHECK(refusal(plan.rotary_factors).empty());
  for (const float wrong : {2.5F, std::numeric_limits<float>::quiet_NaN()}) {
    auto factors = plan.rotary_factors;
    factors[0] = wrong;
    CHECK_THAT(refusal(factors), ContainsSubstring("'rope_freqs.weight' are not those"));
  }
  kind["head_dim"] = 32;
  CHECK_THAT(refusal(hub.gguf_of(model_of(kind)).rotary_factors),
             ContainsSubstring("'rope_freqs.weight' are not those"));
}

TEST_CASE("files of unknown models and parts are refused by name", "[gguf]") {
  const scratch_folder folder;
  const auto original = written(model_of(like_llama()), block_type::f32, folder);
  const auto bytes = read_text(original);
  const auto refusal = [&](const std::string& from, const std::string& to) {
    auto changed = bytes;
    REQUIRE(from.size() == to.size());
    for (auto at = changed.find(from); at != changed.npos; at = changed.find(from, at + 1))
      changed.replace(at, from.size(), to);
    std::ofstream(folder / "x.gguf", std::ios::binary) << changed;
    try {
      read_hub_model(folder_of_gguf(folder / "x.gguf", folder / "cache"));
      return std::string();
    } catch (const input_error& failure) {
      return std::string(failure.what());
    }
  };
  CHECK(refusal("llama", "llama").empty());
  CHECK_THAT(refusal("llama", "gemma"),
             ContainsSubstring("general.architecture is \"gemma\", which is not supported (gpt2, "
                               "llama, qwen2, qwen3, qwen2moe, qwen3moe, olmoe are)"));
  CHECK_THAT(refusal("llama.vocab_size", "llama.logit_size"),
             ContainsSubstring("'llama.logit_size' is 32, which is not supported"));
  CHECK_THAT(refusal("llama.block_count", "llama.block_kount"),
             ContainsSubstring("'llama.block_count' is missing"));
  CHECK_THAT(refusal("blk.1.ffn_up.weight", "blk.1.ffn_xp.weight"),
             ContainsSubstring("tensor 'blk.1.ffn_up.weight' is missing"));
}

TEST_CASE("the folder of a file is made once, and again for other metadata", "[gguf]") {
  const scratch_folder folder;
  const auto file = written(model_of(like_llama()), block_type::f32, folder);
  CHECK(is_gguf_file(file));
  CHECK(!is_gguf_file(folder / "cache"));
  const auto first = folder_of_gguf(file, folder / "cache");
  CHECK(is_hub_folder(first));
  const auto time = fs::last_write_time(first / "config.json");
  CHECK(folder_of_gguf(file, folder / "cache") == first);
  CHECK(gguf_behind(first) == file);
  CHECK(gguf_behind(folder / "cache") == folder / "cache");
  CHECK(fs::last_write_time(first / "config.json") == time);
  CHECK_THROWS_WITH(written(model_of(like_llama()), block_type::f32, folder),
                    ContainsSubstring("exists; name a new file"));
  fs::remove(file);
  written(model_of(like_llama({{"rope_theta", 5000.0}})), block_type::f32, folder);
  CHECK(folder_of_gguf(file, folder / "cache") != first);
}
