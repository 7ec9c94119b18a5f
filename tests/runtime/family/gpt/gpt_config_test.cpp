#include "runtime/family/gpt/gpt_config.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/model_description.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/published_gpts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

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

TEST_CASE("valid models cause no error", "[model]") {
  CHECK(validate(gpt2(12, 768, 12)).empty());
  CHECK(validate(llama3_8b()).empty());
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
  CHECK_THROWS_WITH(gpt_config_from_json(with("\"swiglu\"", "\"relu\"")),
                    ContainsSubstring("'gelu_erf'"));
  CHECK_THROWS_WITH(
      gpt_config_from_json(with("\"tied_embeddings\":false", "\"tied_embeddings\":0")),
      ContainsSubstring("true or false"));
}
