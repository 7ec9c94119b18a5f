// config.json of models of the Hub, as settings of a GPT.

#include "runtime/family/families.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "tests/runtime/checkpoint/hub_configs.hpp"
#include "tests/support/places.hpp"
#include "tests/support/published_gpts.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::deepseek_json;
using troupe::tests::gpt2_json;
using troupe::tests::llama_json;
using troupe::tests::mixtral_json;
using troupe::tests::qwen_moe_json;
using troupe::tests::refusal;

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
  config["max_position_embeddings"] = 64;
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
                   && ContainsSubstring("add the model's own value"));
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
