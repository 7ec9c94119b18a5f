#include "runtime/checkpoint/hub_origin.hpp"

#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/file/file.hpp"
#include "tests/runtime/checkpoint/hub_exports.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::llama;
using troupe::tests::numbered;
using troupe::tests::scratch_folder;
using troupe::tests::with_experts;
namespace fs = std::filesystem;

TEST_CASE("an export keeps settings of the imported folder that Troupe does not use",
          "[checkpoint]") {
  const scratch_folder dir;
  auto x = llama();
  x.window = -1;
  fs::create_directory(dir / "theirs");
  auto config = nlohmann::json::parse(hub_config_json(x, {}));
  config.erase("torch_dtype");
  config["dtype"] = "bfloat16";
  config["architectures"] = {"TheirModel"};
  config["auto_map"] = {{"AutoModel", "theirs.TheirModel"}};
  config["bos_token_id"] = 0;
  config["eos_token_id"] = {4, 5};
  config["pad_token_id"] = 6;
  config["use_cache"] = true;
  config["attention_dropout"] = 0.25;
  config["of_a_later_version"] = {{"a", 1}};
  write_text(dir / "theirs" / "config.json", config.dump());
  const std::string generation = R"({"eos_token_id": [4, 5], "temperature": 0.6})";
  write_text(dir / "theirs" / "generation_config.json", generation);
  keep_hub_origin(dir / "theirs", dir / "run");
  pass_on_hub_origin(dir / "run", dir / "next");

  hub_export what{.model = x, .end_of_document = 3, .origin = kept_hub_origin(dir / "next")};
  what.model.as<gpt_config>().hidden_dropout = 0.1;
  what.model.as<gpt_config>().sequence = 8;
  write_hub_model(dir / "out", what, numbered);
  auto expected = config;
  expected["dtype"] = "float32";
  expected["architectures"] = {"LlamaForCausalLM"};
  expected.erase("auto_map");
  const auto written = [&](const char* folder, const char* file) {
    return nlohmann::json::parse(read_text(dir / folder / file));
  };
  CHECK(written("out", "config.json") == expected);
  CHECK(read_text(dir / "out" / "generation_config.json") == generation);

  what.added_end = 5;  // the documents of the training ended with it
  write_hub_model(dir / "trained", what, numbered);
  CHECK(written("trained", "config.json") == expected);
  what.added_end = 3;
  write_hub_model(dir / "further", what, numbered);
  CHECK(written("further", "config.json")["eos_token_id"] == nlohmann::json({4, 5, 3}));
  CHECK(written("further", "generation_config.json")["eos_token_id"] == nlohmann::json({4, 5, 3}));
  CHECK(written("further", "generation_config.json")["temperature"] == 0.6);

  what.model.as<gpt_config>().vocabulary = 8;  // tokens were added
  write_hub_model(dir / "larger", what, numbered);
  CHECK(written("larger", "config.json")["vocab_size"] == 8);
  CHECK(written("larger", "config.json")["pad_token_id"] == 6);
  what.model.as<gpt_config>().norm_epsilon = 0.5;  // another model
  write_hub_model(dir / "other", what, numbered);
  CHECK(written("other", "config.json")["eos_token_id"] == 3);
  CHECK_FALSE(fs::exists(dir / "other" / "generation_config.json"));
}

TEST_CASE("a model folder says which ids end a text", "[checkpoint]") {
  using ids = std::vector<std::int32_t>;
  const auto ends = [](const char* config, const char* generation = "") {
    return end_ids({.config = config, .generation_config = generation}, "theirs");
  };
  CHECK(ends("{}").empty());
  CHECK(ends(R"({"eos_token_id": 4})") == ids{4});
  CHECK(ends(R"({"eos_token_id": [4, 5]})") == ids{4, 5});
  CHECK(ends(R"({"eos_token_id": [4, 5]})", R"({"eos_token_id": 6})") == ids{6});
  CHECK(ends(R"({"eos_token_id": [4, 5]})", R"({"eos_token_id": null})") == ids{4, 5});
  CHECK(ends(R"({"eos_token_id": [-1, 5]})") == ids{5});  // -1: no end
  for (const auto* wrong : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [4, 0.5]})"})
    CHECK_THROWS_WITH(ends("{}", wrong),
                      ContainsSubstring("'eos_token_id' in generation_config.json of the model in "
                                        "'theirs' should be an id or a list of ids"));
}

TEST_CASE("a DeepSeek-V3 is returned without its layer for further tokens", "[checkpoint]") {
  const auto x = with_experts("deepseek_v3");
  auto config = nlohmann::json::parse(hub_config_json(x, {}));
  config["num_nextn_predict_layers"] = 1;
  CHECK(nlohmann::json::parse(returned_config({.config = config.dump()}, hub_config_json(x), {}))
            .at("num_nextn_predict_layers")
        == 0);
}

TEST_CASE("a model whose type has code of its own is returned with the type of transformers",
          "[checkpoint]") {
  const auto x = with_experts("deepseek_v3");
  auto config = nlohmann::json::parse(hub_config_json(x, {}));
  config["model_type"] = "kimi_k2";
  const auto type = [&] {
    const hub_origin origin{.config = config.dump()};
    return nlohmann::json::parse(returned_config(origin, hub_config_json(x), {})).at("model_type");
  };
  CHECK(type() == "kimi_k2");
  config["auto_map"] = {{"AutoModelForCausalLM", "modeling_deepseek.DeepseekV3ForCausalLM"}};
  CHECK(type() == "deepseek_v3");
}

TEST_CASE("one id to stop at stays one number", "[checkpoint]") {
  auto x = llama();
  auto config = nlohmann::json::parse(hub_config_json(x, 4));
  const auto ends = [&](std::optional<std::int32_t> added) {
    return nlohmann::json::parse(
        returned_config({.config = config.dump()}, hub_config_json(x), added))["eos_token_id"];
  };
  CHECK(ends({}) == 4);
  CHECK(ends(4) == 4);
  CHECK(ends(5) == nlohmann::json({4, 5}));
  config["eos_token_id"] = nullptr;
  CHECK(ends({}).is_null());
  CHECK(ends(5) == 5);
  config["eos_token_id"] = "end";
  CHECK_THROWS_WITH(ends(5), ContainsSubstring("'eos_token_id'"));
}
