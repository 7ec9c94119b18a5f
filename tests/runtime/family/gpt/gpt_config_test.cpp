#include "runtime/family/gpt/gpt_config.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/model_description.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/published_gpts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string only_complaint(const gpt_config& x) {
  const auto all = validate(x);
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("vocabularies are padded as in Megatron-LM", "[model]") {
  CHECK(padded_vocabulary_size(50257, 128, 1) == 50304);
  CHECK(padded_vocabulary_size(50257, 128, 2) == 50432);
  CHECK(padded_vocabulary_size(50257, 128, 8) == 51200);
  CHECK(padded_vocabulary_size(32000, 128, 8) == 32768);
  CHECK(padded_vocabulary_size(128256, 128, 8) == 129024);
  CHECK(padded_vocabulary_size(30524, 128, 4) == 30720);
  CHECK_BREAKS("VOCABULARY-1", padded_vocabulary_size(30524, 0, 4));
}

TEST_CASE("biases of queries, keys and values alone are counted", "[model]") {
  auto x = llama3_8b();
  const auto without = parameter_count(x);
  x.qkv_bias = true;
  CHECK(parameter_count(x) == without + x.layers * x.qkv_width());
}

TEST_CASE("norms of whole rows have a gain for each channel of all heads", "[model]") {
  auto x = llama3_8b();
  const auto without = parameter_count(x);
  CHECK(to_json(x).find("qk_norm_rows") == std::string::npos);
  x.qk_norm_rows = true;
  CHECK_THAT(only_complaint(x), ContainsSubstring("without `model.qk_norm`"));
  x.qk_norm = true;
  CHECK(validate(x).empty());
  CHECK(parameter_count(x) == without + x.layers * (x.heads + x.groups) * x.head_size);
  CHECK(gpt_config_from_json(to_json(x)) == x);
}

TEST_CASE("valid models cause no error", "[model]") {
  CHECK(validate(gpt2(12, 768, 12)).empty());
  for (const auto& x : {llama3_8b(), mixtral_8x7b(), qwen3_30b_a3b(), deepseek_v3()})
    CHECK(validate(x).empty());
}

TEST_CASE("published models with experts have their number of parameters", "[model]") {
  CHECK(parameter_count(mixtral_8x7b()) == 46'702'792'704);
  CHECK(parameter_count(qwen3_30b_a3b()) == 30'532'122'624);
  CHECK(parameter_count(deepseek_v3()) == 671'026'419'200);
  CHECK(active_parameter_count(mixtral_8x7b()) == 12'879'925'248);
  CHECK(active_parameter_count(qwen3_30b_a3b()) == 3'353'032'704);
  CHECK(active_parameter_count(deepseek_v3()) == 37'552'297'472);
}

TEST_CASE("layers with experts are each N-th one, or those of a list", "[model]") {
  using list = std::vector<bool>;
  CHECK(layers_with_experts("1", 3) == list{true, true, true});
  CHECK(layers_with_experts("2", 5) == list{true, false, true, false, true});
  CHECK(layers_with_experts("([0]*2+[1]*3)", 5) == list{false, false, true, true, true});
  CHECK(layers_with_experts("[0, 1] * 2 + [1]", 5) == list{false, true, false, true, true});
  CHECK(layers_with_experts("(([0]+[1])*2)", 4) == list{false, true, false, true});
  for (const auto* wrong : {"",
                            "0",
                            "-1",
                            "[]",
                            "[2]",
                            "[1",
                            "[1]*",
                            "[1]+",
                            "([1]",
                            "[1])",
                            "[1]*x",
                            "3*[1]",
                            "[1]*10001",
                            "[1]*5000*5000",
                            "((((((((([1])))))))))"})
    CHECK(layers_with_experts(wrong, 4).empty());
  CHECK(pattern_of({true, true}) == "1");
  CHECK(pattern_of({false, true, true, false}) == "([0]+[1]*2+[0])");
  CHECK(layers_with_experts(pattern_of({false, true, true, false}), 4)
        == list{false, true, true, false});
}

TEST_CASE("JSON has experts and latents only if the model has them", "[model]") {
  const auto dense = nlohmann::json::parse(to_json(llama3_8b()));
  CHECK_FALSE(dense.contains("experts"));
  CHECK_FALSE(dense.contains("latent"));
  for (auto x : {mixtral_8x7b(), qwen3_30b_a3b(), deepseek_v3()}) {
    x.experts.balance = {"aux_loss", "seq_aux_loss"};
    x.experts.balance_weights = {0.5, 0.25};
    CHECK(gpt_config_from_json(to_json(x)) == x);
  }
  auto json = nlohmann::json::parse(to_json(mixtral_8x7b()));
  const auto refusal = [&json] {
    try {
      gpt_config_from_json(json.dump());
      return std::string();
    } catch (const input_error& failure) {
      return std::string(failure.what());
    }
  };
  json["experts"]["balance"] = 1;
  CHECK_THAT(refusal(), ContainsSubstring("'experts.balance' should be a list"));
  json["experts"]["balance"] = {2};
  CHECK_THAT(refusal(), ContainsSubstring("'experts.balance' should be a text"));
  json["experts"].erase("balance");
  CHECK_THAT(refusal(), ContainsSubstring("'experts.balance' is missing"));
  json["experts"] = 8;
  CHECK_THAT(refusal(), ContainsSubstring("'experts' should be an object"));
}

TEST_CASE("a rule of experts names the nearest valid value", "[model]") {
  const auto complaint = [](auto change) {
    auto x = mixtral_8x7b();
    x.experts.score = "sigmoid";
    change(x.experts);
    return only_complaint(x);
  };
  using experts = experts_config;
  CHECK_THAT(complaint([](experts& x) { x.chosen = 9; }),
             ContainsSubstring("`model.experts.chosen` is 9 of 8") && ContainsSubstring("1 to 8"));
  CHECK_THAT(complaint([](experts& x) { x.number = 3000; }), ContainsSubstring("1 to 2048"));
  CHECK_THAT(complaint([](experts& x) { x.groups = x.group_topk = 3; }),
             ContainsSubstring("`model.experts.groups` 3") && ContainsSubstring("give 2"));
  CHECK_THAT(complaint([](experts& x) { x.groups = 4; }), ContainsSubstring("give both"));
  CHECK_THAT(complaint([](experts& x) {
               x.groups = 4;
               x.group_topk = 3;
             }),
             ContainsSubstring("`model.experts.group_topk` is 3") && ContainsSubstring("1 to 2"));
  CHECK_THAT(complaint([](experts& x) {
               x.chosen = 5;
               x.groups = 4;
               x.group_topk = 2;
             }),
             ContainsSubstring("give 3 to 4"));
  CHECK_THAT(complaint([](experts& x) { x.layers = "[1]*30"; }),
             ContainsSubstring("30 entries") && ContainsSubstring("give '1'"));
  CHECK_THAT(complaint([](experts& x) { x.layers = "[0]*32"; }), ContainsSubstring("give 1"));
  CHECK_THAT(complaint([](experts& x) { x.layers = "all"; }), ContainsSubstring("cannot read"));
  CHECK_THAT(complaint([](experts& x) { x.score = "relu"; }), ContainsSubstring("sqrtsoftplus"));
  CHECK_THAT(complaint([](experts& x) { x.pre_softmax = true; }),
             ContainsSubstring("`model.experts.pre_softmax` does nothing"));
  CHECK_THAT(complaint([](experts& x) {
               x.score = "softmax";
               x.chosen = 1;
             }),
             ContainsSubstring("add `model.experts.pre_softmax`"));
  CHECK_THAT(complaint([](experts& x) {
               x.score = "softmax";
               x.expert_bias = true;
             }),
             ContainsSubstring("sigmoid or sqrtsoftplus"));
  CHECK_THAT(complaint([](experts& x) { x.balance = {"entropy"}; }),
             ContainsSubstring("entropy is refused") && ContainsSubstring("global_aux_loss"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"aux_loss", "none"};
             }),
             ContainsSubstring("seq_aux_loss and global_aux_loss, each once"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"aux_loss", "global_aux_loss", "aux_loss"};
             }),
             ContainsSubstring("has 3 values") && ContainsSubstring("each once"));
  CHECK_THAT(
      complaint([](experts& x) {
        x.balance = {"aux_loss", "seq_aux_loss"};
      }),
      ContainsSubstring("one value for each loss") && ContainsSubstring("give 2 instead of 1"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"sinkhorn"};
               x.score = "softmax";
               x.pre_softmax = true;
               x.balance_weights = {0.5};
             }),
             ContainsSubstring("leave out `model.experts.balance_weights`"));
  CHECK_THAT(complaint([](experts& x) { x.expert_bias = x.forced_balance = true; }),
             ContainsSubstring("give one of `model.experts.expert_bias`"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"quantile_balancing"};
               x.chosen = 8;
             }),
             ContainsSubstring("at most 7"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"sinkhorn"};
               x.balance_weights = {0};
               x.score = "softmax";
               x.pre_softmax = true;
               x.capacity = 1;
             }),
             ContainsSubstring("needs losses as `model.experts.balance`, or none"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"sinkhorn"};
               x.balance_weights = {0};
             }),
             ContainsSubstring("has the weights of `model.experts.score` softmax and"));
  CHECK_THAT(complaint([](experts& x) {
               x.balance = {"sinkhorn"};
               x.balance_weights = {0};
               x.score = "sqrtsoftplus";
               x.chosen = 1;
             }),
             ContainsSubstring("`model.experts.chosen` 1") && ContainsSubstring("sigmoid"));
  CHECK_THAT(complaint([](experts& x) { x.pads = true; }),
             ContainsSubstring("add `model.experts.capacity`"));
  CHECK_THAT(complaint([](experts& x) { x.drops = "last"; }), ContainsSubstring("position"));
  CHECK_THAT(complaint([](experts& x) { x.shared_gate = true; }),
             ContainsSubstring("`model.experts.shared_ffn`"));
  CHECK_THAT(complaint([](experts& x) { x.jitter = 2; }), ContainsSubstring("0 to 1"));
  CHECK_THAT(complaint([](experts& x) { x.capacity = std::nan(""); }),
             ContainsSubstring("`model.experts.capacity` is nan"));
  CHECK_THAT(complaint([](experts& x) { x.ffn = 0; }), ContainsSubstring("`model.experts.ffn`"));
  auto x = mixtral_8x7b();
  x.linear_bias = true;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.linear_bias=false`"));
}

TEST_CASE("a rule of latent attention names the setting", "[model]") {
  const auto complaint = [](auto change) {
    auto x = deepseek_v3();
    change(x);
    return only_complaint(x);
  };
  CHECK_THAT(complaint([](gpt_config& x) { x.qk_norm = false; }),
             ContainsSubstring("add `model.qk_norm`"));
  CHECK_THAT(complaint([](gpt_config& x) { x.head_size = 128; }),
             ContainsSubstring("`model.head_size` is 128"));
  CHECK_THAT(complaint([](gpt_config& x) { x.groups = 64; }),
             ContainsSubstring("`model.grouped_queries`"));
  CHECK_THAT(complaint([](gpt_config& x) { x.window = 4; }), ContainsSubstring("`model.window`"));
  CHECK_THAT(complaint([](gpt_config& x) { x.qkv_bias = true; }),
             ContainsSubstring("`model.qkv_bias`"));
  CHECK_THAT(complaint([](gpt_config& x) { x.rotary_percent = 0.5; }),
             ContainsSubstring("`model.latent.rotated`"));
  CHECK_THAT(complaint([](gpt_config& x) {
               x.latent.rotated = 63;
               x.head_size = 191;
             }),
             ContainsSubstring("give 64"));
  CHECK_THAT(complaint([](gpt_config& x) { x.latent.value_size = 0; }),
             ContainsSubstring("`model.latent.value_size`"));
  CHECK_THAT(complaint([](gpt_config& x) { x.latent.norm_epsilon = -1; }),
             ContainsSubstring("`model.latent.norm_epsilon`"));
}

TEST_CASE("every missing size is named by its flag", "[model]") {
  const auto all = validate(gpt_config{});
  REQUIRE(all.size() == 8);
  CHECK_THAT(all[0], ContainsSubstring("`model.layers` is 0"));
}

TEST_CASE("an error names the nearest valid value", "[model]") {
  auto x = llama3_8b();
  x.groups = 7;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.groups`") && ContainsSubstring("give 8"));
  x = llama3_8b();
  x.rotary_percent = 0.26;  // 33.28 of 128 channels: 33 are rotated
  CHECK_THAT(only_complaint(x),
             ContainsSubstring("`model.rotary_percent`") && ContainsSubstring("0.25"));
  x = gpt2(12, 768, 12);
  x.sequence = 2048;
  CHECK_THAT(only_complaint(x),
             ContainsSubstring("`model.positions`") && ContainsSubstring("at least 2048"));
  x = gpt2(12, 768, 12);
  x.padded_vocabulary = 50256;
  CHECK_THAT(only_complaint(x), ContainsSubstring("at least 50257"));
  x = gpt2(12, 768, 12);
  x.hidden_dropout = 1;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.hidden_dropout`"));
}

TEST_CASE("numbers that are not finite are refused", "[model]") {
  auto x = llama3_8b();
  x.norm_epsilon = x.init_std = x.rotary_base = x.rotary_percent = x.hidden_dropout
      = std::numeric_limits<double>::quiet_NaN();
  CHECK(validate(x).size() == 5);
}

TEST_CASE("a model with an overflowing number of parameters is refused", "[model]") {
  auto x = gpt2(12, 768, 12);
  x.layers = x.hidden = std::numeric_limits<std::int32_t>::max();
  CHECK_THAT(only_complaint(x), ContainsSubstring("parameters"));
}

TEST_CASE("a configuration survives a round trip through JSON", "[model]") {
  for (auto x : {gpt2(12, 768, 12), llama3_8b()}) {
    x.rotary_interleaved = x.qkv_bias = true;
    x.norm_epsilon = 1e-6;
    CHECK(gpt_config_from_json(to_json(x)) == x);
  }
}

TEST_CASE("newer fields survive JSON", "[model]") {
  auto x = llama3_8b();
  x.qk_norm = true;
  x.gain_offset = 1;
  x.window = 128;
  x.activation = kernels::activation::squared_relu;
  x.scaling = rope_scaling::yarn;
  x.scaling_factor = 32;
  x.scaling_positions = 4096;
  x.yarn_mscale_all = 0.5;
  x.yarn_round = false;
  const auto text = to_json(x);
  CHECK(gpt_config_from_json(text) == x);
}

TEST_CASE("JSON calls the gated silu swiglu, and names each other choice by two fields",
          "[model]") {
  auto x = llama3_8b();
  CHECK(nlohmann::json::parse(to_json(x))["activation"] == "swiglu");
  CHECK_FALSE(nlohmann::json::parse(to_json(x)).contains("gated"));
  for (const auto kind : kernels::every_activation)
    for (const bool gated : {false, true}) {
      x.activation = kind;
      x.gated = gated;
      CHECK(gpt_config_from_json(to_json(x)) == x);
    }
}

TEST_CASE("JSON of the first version is read, and each of its fields is demanded", "[model]") {
  const auto first = nlohmann::json::parse(R"({
      "layers": 32, "hidden": 4096, "heads": 32, "groups": 8, "head_size": 128, "ffn": 14336,
      "sequence": 8192, "positions": 8192, "vocabulary": 128256, "padded_vocabulary": 128256,
      "position": "rope", "rotary_base": 500000, "rotary_percent": 1, "rotary_interleaved": false,
      "normalization": "rms", "norm_epsilon": 1e-5, "activation": "swiglu", "linear_bias": false,
      "qkv_bias": false, "tied_embeddings": false, "hidden_dropout": 0, "attention_dropout": 0,
      "init_std": 0.02})");
  CHECK(gpt_config_from_json(first.dump()) == llama3_8b());
  for (const auto& [key, value] : first.items()) {
    auto lacking = first;
    lacking.erase(key);
    CHECK_THROWS_WITH(gpt_config_from_json(lacking.dump()),
                      ContainsSubstring("'" + key + "' is missing"));
  }
  auto unknown = first;
  unknown["scaling"] = "linear";
  CHECK_THROWS_WITH(gpt_config_from_json(unknown.dump()), ContainsSubstring("'yarn'"));
}

TEST_CASE("normalisation of queries and keys adds a gain for each channel of a head", "[model]") {
  auto x = llama3_8b();
  const auto without = parameter_count(x);
  x.qk_norm = true;
  CHECK(parameter_count(x) == without + 2 * x.layers * x.head_size);
  x.normalization = kernels::normalization::layer;
  const auto with = parameter_count(x);
  x.qk_norm = false;
  CHECK(with == parameter_count(x) + 4 * x.layers * x.head_size);
}

TEST_CASE("invalid rotary scaling is refused", "[model]") {
  auto x = llama3_8b();
  x.scaling = rope_scaling::llama3;
  x.scaling_factor = 8;
  CHECK(validate(x).empty());
  x.llama3_low = 4;
  CHECK_THAT(only_complaint(x), ContainsSubstring("high_freq_factor"));
  x = llama3_8b();
  x.scaling = rope_scaling::yarn;
  x.scaling_factor = 0.5;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.yarn_factor` is 0.5"));
  x.scaling_factor = 4;
  x.rotary_percent = 0.5;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.rotary_percent`"));
  x = llama3_8b();
  x.rotary_interpolation = 0;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.rotary_interpolation`"));
  x = gpt2(12, 768, 12);
  x.scaling = rope_scaling::llama3;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.position` rope"));
  x = gpt2(12, 768, 12);
  x.window = -2;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.window`"));
}

TEST_CASE("JSON that is not exactly a configuration is refused, by field", "[model]") {
  const auto text = to_json(llama3_8b());
  const auto with = [&](std::string_view from, std::string_view to) {
    auto changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  CHECK_THROWS_AS(gpt_config_from_json("["), input_error);
  CHECK_THROWS_AS(gpt_config_from_json("[]"), input_error);
  CHECK_THROWS_WITH(gpt_config_from_json(with("\"layers\":32,", "")),
                    ContainsSubstring("'layers' is missing"));
  CHECK_THROWS_WITH(gpt_config_from_json(with("\"layers\":32", "\"layers\":32.5")),
                    ContainsSubstring("32.5"));
  CHECK_THROWS_WITH(gpt_config_from_json(with("\"layers\":32", "\"layers\":18446744073709551615")),
                    ContainsSubstring("whole number"));
  CHECK_THROWS_WITH(gpt_config_from_json(with("\"layers\":32", "\"layers\":32,\"experts\":8")),
                    ContainsSubstring("'experts'"));
  CHECK_THROWS_WITH(gpt_config_from_json(with("\"swiglu\"", "\"selu\"")),
                    ContainsSubstring("'gelu_erf'"));
  CHECK_THROWS_WITH(
      gpt_config_from_json(with("\"tied_embeddings\":false", "\"tied_embeddings\":0")),
      ContainsSubstring("true or false"));
}
