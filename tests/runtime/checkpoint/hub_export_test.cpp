#include "runtime/checkpoint/hub_export.hpp"

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_hub.hpp"
#include "tests/runtime/checkpoint/hub_exports.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <type_traits>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::llama;
using troupe::tests::numbered;
using troupe::tests::scratch_folder;
using troupe::tests::with_experts;
namespace fs = std::filesystem;

namespace {

/// Writes the folder of a reference case as transformers does, and opens it.
hub_model golden(const std::string& name, const fs::path& to) {
  const auto command = "python3 " + troupe::tests::source_dir() + "/tests/golden/gpt/hf_model.py "
                       + name + " " + to.string() + " > /dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  return read_hub_model(to);
}

hub_source from(const hub_model& model) {
  return [&](const std::string& name, const box& part, std::span<float> to) {
    std::vector<float> all(std::size_t(model.extents(name).size()));
    model.read(name, all);
    copy_common(whole(model.extents(name)), all.data(), part, to.data(), sizeof(float));
  };
}

/// The configuration as hub_config reads it.
gpt_config as_read(gpt_config x) {
  x.sequence = x.positions;
  x.padded_vocabulary = x.vocabulary;
  x.hidden_dropout = x.attention_dropout = 0;
  return x;
}

constexpr const char* kinds_with_experts[]
    = {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3"};

/// Whole parameters, with a number of its own for each element.
class numbered_parameters {
 public:
  explicit numbered_parameters(const gpt_config& x) {
    float next = 0;
    for (const auto& recipe : gpt_hub_recipes(x, "")) {
      auto& to = all_[recipe.name];
      to.extents = recipe.extents;
      for (std::int64_t i = 0; i < recipe.extents.size(); ++i)
        to.elements.push_back(next++);
    }
  }
  const std::vector<float>& operator[](const std::string& name) const {
    return all_.at(name).elements;
  }
  void operator()(const std::string& name, const box& part, std::span<float> to) const {
    const auto& from = all_.at(name);
    copy_common(whole(from.extents), from.elements.data(), part, to.data(), sizeof(float));
  }

 private:
  struct parameter {
    shape extents;
    std::vector<float> elements;
  };
  std::map<std::string, parameter> all_;
};

template <class Value>
Value another(Value x) {
  if constexpr (std::is_same_v<Value, bool>)
    return !x;
  else if constexpr (std::is_same_v<Value, std::string>)
    return x == "1" ? "([0]+[1])" : x + "x";
  else if constexpr (requires { x.emplace_back(); }) {
    x.emplace_back();
    return x;
  } else if constexpr (std::is_enum_v<Value>)
    return x == Value{} ? Value(1) : Value{};
  else
    return x + 1;
}

/// Gives each member another value, one at a time. `part`: a model, or a struct in it.
template <class Struct>
void change_each(Struct& part,
                 const std::string& above,
                 const std::function<void(const std::string& path)>& see) {
  for_each_field<Struct>([&](const auto& row) {
    auto& member = part.*row.member;
    if constexpr (has_fields<std::remove_cvref_t<decltype(member)>>) {
      change_each(member, above + row.key + ".", see);
    } else {
      const auto before = member;
      member = another(member);
      see(above + row.key);
      member = before;
    }
  });
}

/// The exported config.json; empty if the export is refused.
std::string exported(const gpt_config& x) {
  try {
    return gpt_to_hub(x);
  } catch (const input_error&) {
    return {};
  }
}

}  // namespace

TEST_CASE("a model that was imported is exported with the same bytes", "[checkpoint][unthreaded]") {
  const std::string name = GENERATE("gpt2_learned_tied",
                                    "llama_untied_gqa",
                                    "llama_tied_rope_theta",
                                    "llama_rope_llama3",
                                    "mistral_window",
                                    "qwen3_tied_gqa",
                                    "qwen3_yarn",
                                    "mixtral",
                                    "qwen2_moe",
                                    "qwen3_moe",
                                    "olmoe",
                                    "deepseek_v2",
                                    "deepseek_v3");
  INFO(name);
  const scratch_folder dir;
  const auto model = golden(name, dir / "theirs");
  write_hub_model(dir / "ours", {.model = model.config()}, from(model));
  const safetensors_file theirs(dir / "theirs" / "model.safetensors");
  const safetensors_file ours(dir / "ours" / "model.safetensors");
  CHECK(ours.tensors().size() == theirs.tensors().size());
  for (const auto& x : theirs.tensors()) {
    INFO(x.name);
    const auto* found = ours.find(x.name);
    REQUIRE(found != nullptr);
    CHECK(found->extents == x.extents);
    const auto a = ours.bytes(*found), b = theirs.bytes(x);
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
  CHECK(read_hub_model(dir / "ours").config() == model.config());
}

TEST_CASE("a model in the hub's format is read back as the same model", "[checkpoint]") {
  const auto check = [](gpt_config x, const char* kind) {
    INFO(kind);
    const auto text = hub_config_json(x, 3);
    const auto json = nlohmann::json::parse(text);
    CHECK(json["model_type"] == kind);
    CHECK(json["eos_token_id"] == 3);
    CHECK(gpt_from_hub(text, "it") == as_read(x));
  };
  auto x = llama();
  check(x, "llama");
  x.rotary_interpolation = 2.5;
  check(x, "llama");
  x = llama();
  x.linear_bias = x.tied_embeddings = true;
  check(x, "llama");
  x = llama();
  x.qkv_bias = true;
  check(x, "qwen2");
  x = llama();
  x.window = 3;
  check(x, "mistral");
  x = llama();
  x.qk_norm = true;
  x.head_size = 6;
  x.scaling = rope_scaling::yarn;
  x.scaling_factor = 4;
  x.scaling_positions = 8;
  x.yarn_mscale = x.yarn_mscale_all = 0.7;
  x.yarn_round = false;
  check(x, "qwen3");
  x = gpt_config();
  x.layers = x.heads = x.groups = 1;
  x.hidden = x.head_size = 4;
  x.ffn = 6;
  x.sequence = 3;
  x.positions = 5;
  x.vocabulary = x.padded_vocabulary = 9;
  x.activation = troupe::kernels::activation::gelu_erf;
  check(x, "gpt2");
  for (const auto* kind : kinds_with_experts) {
    x = with_experts(kind);
    CHECK(validate(x).empty());
    check(x, kind);
    x.experts.groups = x.experts.group_topk = 0;
    x.experts.group_score = "sum";
    x.experts.layers = "1";
    check(x, kind);
  }
  x = with_experts("deepseek_v3");
  x.norm_epsilon = 1e-5;
  x.latent.norm_epsilon = 1e-6;
  x.rotary_interleaved = false;
  x.latent.q_rank = 0;
  x.scaling = rope_scaling::yarn;
  x.scaling_factor = 40;
  x.scaling_positions = 8;
  x.yarn_mscale_all = 1;
  check(x, "deepseek_v3");
  x = with_experts("mixtral");
  x.window = 3;
  check(x, "mixtral");
  CHECK(nlohmann::json::parse(hub_config_json(x))["eos_token_id"].is_null());
}

TEST_CASE("a model without a hub format is refused with all reasons", "[checkpoint]") {
  const auto refusal = [](const gpt_config& x) {
    try {
      hub_config_json(x);
      return std::string();
    } catch (const input_error& failure) {
      return std::string(failure.what());
    }
  };
  auto x = llama();
  x.normalization = troupe::kernels::normalization::layer;
  x.rotary_percent = 0.5;
  CHECK_THAT(refusal(x),
             ContainsSubstring("`model.normalization` RMSNorm")
                 && ContainsSubstring("`model.rotary_percent` 1"));
  x = llama();
  x.position = position_embedding::none;
  CHECK_THAT(refusal(x), ContainsSubstring("`model.position` learned_absolute or rope"));
  x = llama();
  x.window = 3;
  x.qk_norm = true;
  CHECK_THAT(refusal(x), ContainsSubstring("only one of"));
  const scratch_folder dir;
  CHECK_THROWS_AS(write_hub_model(dir / "out", {.model = x}, numbered), input_error);
  CHECK_FALSE(fs::exists(dir / "out"));
}

TEST_CASE("an export says or refuses another value of each member", "[checkpoint]") {
  struct kind {
    const char* name;
    gpt_config model;
    std::set<std::string_view> left_out;  // without an effect on this kind, or no key of the Hub's
  };
  gpt_config gpt2;
  gpt2.layers = gpt2.heads = gpt2.groups = 2;
  auto llama3 = llama(), yarn = llama();
  llama3.scaling = rope_scaling::llama3;
  yarn.scaling = rope_scaling::yarn;
  // A run's own lengths and its balance of experts; gains are exported in full.
  const std::set<std::string_view> everywhere{"sequence",
                                              "padded_vocabulary",
                                              "gain_offset",
                                              "experts.balance",
                                              "experts.balance_weights",
                                              "experts.z_weight",
                                              "experts.jitter",
                                              "experts.bias_rate",
                                              "experts.quantile_decay",
                                              "experts.capacity",
                                              "experts.pads",
                                              "experts.drops"};
  const std::set<std::string_view> stretching{"scaling_factor",
                                              "scaling_positions",
                                              "llama3_low",
                                              "llama3_high",
                                              "yarn_fast",
                                              "yarn_slow",
                                              "yarn_mscale_all",
                                              "yarn_round"};
  auto mixtral = stretching, deepseek = stretching;
  mixtral.insert({"hidden_dropout", "ffn", "experts.group_topk", "experts.group_score"});
  deepseek.insert(
      {"hidden_dropout", "head_size", "qk_norm", "qk_norm_rows", "experts.pre_softmax"});
  const kind kinds[] = {
      {"gpt2",
       gpt2,
       {"qkv_bias",  // linear_bias includes it
        "rotary_base",
        "rotary_percent",
        "rotary_interleaved",
        "rotary_interpolation",
        "scaling",
        "scaling_factor",
        "scaling_positions",
        "llama3_low",
        "llama3_high",
        "yarn_fast",
        "yarn_slow",
        "yarn_mscale",
        "yarn_mscale_all",
        "yarn_round"}},
      {"llama3",
       llama3,
       {"hidden_dropout", "yarn_fast", "yarn_slow", "yarn_mscale_all", "yarn_round"}},
      {"yarn", yarn, {"hidden_dropout", "llama3_low", "llama3_high"}},
      {"mixtral", with_experts("mixtral"), mixtral},
      {"deepseek_v3", with_experts("deepseek_v3"), deepseek},
  };
  for (const auto& kind : kinds) {
    const auto as_it_is = exported(kind.model);
    REQUIRE_FALSE(as_it_is.empty());
    auto model = kind.model;
    const bool has_experts = model.has_experts(), has_latents = model.has_latents();
    change_each(model, "", [&](const std::string& path) {
      CAPTURE(kind.name, path);
      const bool unused
          = (!has_experts && path.starts_with("experts.") && path != "experts.number")
            || (!has_latents && path.starts_with("latent.") && path != "latent.kv_rank");
      const bool left_out = unused || everywhere.contains(path) || kind.left_out.contains(path);
      CHECK((exported(model) == as_it_is) == left_out);
    });
  }
}

TEST_CASE("experts of all kinds are exported one by one, and read back together", "[checkpoint]") {
  for (const std::string kind : kinds_with_experts) {
    CAPTURE(kind);
    const auto x = with_experts(kind);
    const numbered_parameters parameters(x);
    const scratch_folder dir;
    write_hub_model(dir / "out", {.model = x, .shard_bytes = 1000}, std::cref(parameters));
    const auto model = read_hub_model(dir / "out");
    CHECK(model.config().as<gpt_config>() == as_read(x));
    std::int64_t elements = 0;
    for (const auto& parameter : model.parameters()) {
      CAPTURE(parameter.name);
      std::vector<float> read(std::size_t(parameter.extents.size()));
      model.read(parameter.name, read);
      CHECK(read == parameters[parameter.name]);
      elements += parameter.extents.size();
    }
    CHECK(elements == parameter_count(x));
  }
}

TEST_CASE("a tensor of an expert has its rows of the stacked parameter", "[checkpoint]") {
  const auto x = with_experts("mixtral");
  const numbered_parameters parameters(x);
  const scratch_folder dir;
  write_hub_model(dir / "out", {.model = x}, std::cref(parameters));
  const safetensors_file file(dir / "out" / "model.safetensors");
  const auto check = [&](const char* source, const char* name, std::int64_t first) {
    const auto* found = file.find(std::string("model.layers.1.block_sparse_moe.") + source);
    REQUIRE(found != nullptr);
    std::vector<float> read(std::size_t(found->extents.size()));
    file.read(*found, 0, read);
    const auto from = parameters[std::string("decoder.layers.1.mlp.") + name].begin() + first;
    CHECK(std::equal(read.begin(), read.end(), from));
  };
  const auto size = x.experts.ffn * x.hidden;
  check("gate.weight", "router.weight", 0);
  check("experts.2.w1.weight", "experts.linear_fc1.weight", 2 * 2 * size);
  check("experts.2.w3.weight", "experts.linear_fc1.weight", (2 * 2 + 1) * size);
  check("experts.3.w2.weight", "experts.linear_fc2.weight", 3 * size);
}

TEST_CASE("an imported model is a checkpoint of its parameters", "[checkpoint]") {
  const scratch_folder dir;
  const auto model = golden("llama_untied_gqa", dir / "hub");
  const directory_lock lock(dir / "save");
  const auto folder = save_hub_model(model, dir / "save", lock, R"({"tokenizer": null})");
  CHECK(latest_checkpoint(dir / "save").folder == folder);
  const auto saved = open_checkpoint(folder);
  CHECK(saved->manifest().iteration == 0);
  CHECK(saved->manifest().model == model.config());
  CHECK(saved->names().size() == model.parameters().size());
  for (const auto& x : model.parameters()) {
    std::vector<float> a(std::size_t(x.extents.size())), b = a;
    model.read(x.name, a);
    saved->read(x.name, b);
    CHECK(a == b);
  }
  CHECK_THROWS_AS(save_hub_model(model, dir / "save", lock, "{}"), input_error);
}

TEST_CASE("an import cuts experts between files, of which one is in memory", "[checkpoint]") {
  const scratch_folder dir;
  const auto x = with_experts("mixtral");
  const numbered_parameters parameters(x);
  write_hub_model(dir / "hub", {.model = x}, std::cref(parameters));
  const auto model = read_hub_model(dir / "hub");
  const auto fc1 = 2 * x.experts.ffn * x.hidden;  // elements of one expert
  const directory_lock lock(dir / "save");
  const auto saved = open_checkpoint(
      save_hub_model(model, dir / "save", lock, R"({"tokenizer": null})", {}, 3 * fc1));
  std::map<std::string, std::size_t> pieces;
  for (const auto& shard : saved->manifest().shards) {
    std::int64_t elements = 0;
    for (const auto& piece : shard.pieces) {
      ++pieces[piece.name];
      elements += piece.part.size();
    }
    CHECK(elements <= 3 * fc1);
  }
  CHECK(pieces.at("decoder.layers.1.mlp.experts.linear_fc1.weight") == 2);  // three and one
  CHECK(pieces.at("decoder.layers.1.mlp.experts.linear_fc2.weight") == 1);
  CHECK(saved->names().size() == model.parameters().size());
  for (const auto& parameter : model.parameters()) {
    CAPTURE(parameter.name);
    std::vector<float> read(std::size_t(parameter.extents.size()));
    saved->read(parameter.name, read);
    CHECK(read == parameters[parameter.name]);
  }
  // Less than a matrix: each is a file.
  const directory_lock another(dir / "least");
  const auto least = open_checkpoint(save_hub_model(model, dir / "least", another, "{}", {}, 1));
  CHECK_NOTHROW(least->verify());
}
