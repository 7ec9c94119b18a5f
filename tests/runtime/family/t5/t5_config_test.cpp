#include "runtime/family/t5/t5_config.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"
#include "runtime/family/t5/t5.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/model/liveness.hpp"
#include "runtime/model/ties.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/sample_row.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

t5_config small_t5(const std::string& form) {
  auto out = t5_form(form);
  out.encoder_layers = 2;
  out.decoder_layers = 3;
  out.hidden = 24;
  out.heads = 4;
  out.head_size = 10;
  out.ffn = 40;
  out.encoder_sequence = out.positions = 12;
  out.decoder_sequence = 8;
  out.vocabulary = 50;
  out.padded_vocabulary = 64;
  return out;
}

std::string only_complaint(const t5_config& x) {
  const auto all = validate(x);
  REQUIRE(all.size() == 1);
  return all[0];
}

const std::vector<std::string> forms = {"megatron", "v1.0", "v1.1"};

given_settings shape_given() {
  return {"model.encoder_layers",
          "model.hidden",
          "model.heads",
          "model.encoder_sequence",
          "model.decoder_sequence"};
}

}  // namespace

TEST_CASE("each form of a T5 is valid, and its JSON gives it back", "[t5]") {
  for (const auto& form : forms) {
    CAPTURE(form);
    const model_description model = small_t5(form);
    CHECK(validate(model).empty());
    CHECK(model_from_json(to_json(model)) == model);
    CHECK_THAT(to_json(model), ContainsSubstring(R"("family")"));
  }
}

TEST_CASE("a T5 of t5-small's sizes has its number of parameters", "[t5]") {
  auto x = t5_form("v1.0");
  x.encoder_layers = x.decoder_layers = 6;
  x.hidden = 512;
  x.heads = 8;
  x.head_size = 64;
  x.ffn = 2048;
  x.vocabulary = x.padded_vocabulary = 32128;
  x.encoder_sequence = x.decoder_sequence = 512;
  CHECK(parameter_count(model_description(x)) == 60506624);
}

TEST_CASE("the letters of a T5 are those of its units", "[t5]") {
  const model_description model = small_t5("v1.0");
  CHECK(model.letters() == model.spec().letters());
  CHECK(model.layers() == 5);
}

TEST_CASE("encoder, decoder and output layer of a T5 share a table", "[t5]") {
  const auto uses = [](const t5_config& x, const std::string& owner) -> std::size_t {
    for (const auto& tie : ties_of(t5_spec(x)))
      if (tie.owner == owner)
        return tie.units.size();
    return 1;
  };
  const std::string words = "embedding.word_embeddings.weight";
  CHECK(uses(small_t5("v1.0"), words) == 3);
  CHECK(uses(small_t5("v1.1"), words) == 2);
  CHECK(uses(small_t5("megatron"), words) == 3);
  CHECK(uses(small_t5("megatron"), "embedding.position_embeddings.weight") == 2);
  const std::string biases = ".layers.0.self_attention.relative_attention_bias.weight";
  CHECK(uses(small_t5("v1.0"), "encoder" + biases) == 2);
  CHECK(uses(small_t5("v1.0"), "decoder" + biases) == 3);
}

TEST_CASE("the encoder of a T5 crosses all cuts up to the last layer of the decoder", "[t5]") {
  const auto spec = t5_spec(small_t5("v1.0"));  // E e e n D t t t L
  const auto cuts = cuts_of(spec);
  const auto crosses = [&](std::size_t cut) { return cuts.at(cut).streams; };
  CHECK(crosses(3) == std::vector<std::string>{"encoder"});
  CHECK(crosses(5) == std::vector<std::string>{"encoder", "decoder"});
  CHECK(crosses(7) == std::vector<std::string>{"encoder", "decoder"});
  CHECK(crosses(8) == std::vector<std::string>{"decoder"});
}

TEST_CASE("rules of a T5 name the setting and the nearest value", "[t5]") {
  auto x = small_t5("megatron");
  x.positions = 10;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.positions` is 10"));
  CHECK_THAT(only_complaint(x), ContainsSubstring("give at least 12"));
  x = small_t5("v1.0");
  x.buckets = 18;
  CHECK_THAT(only_complaint(x), ContainsSubstring("give 20"));
  x = small_t5("v1.0");
  x.most_distance = 16;
  CHECK_THAT(only_complaint(x), ContainsSubstring("give at least 17"));
  x = small_t5("v1.0");
  x.decoder_layers = 0;
  CHECK_THAT(only_complaint(x), ContainsSubstring("`model.decoder_layers` is 0"));
  x = small_t5("v1.0");
  x.activation = "selu";
  CHECK_THAT(only_complaint(x), ContainsSubstring("relu, gelu_tanh"));
  x = small_t5("v1.0");
  x.hidden = x.ffn = x.heads = 400000000;
  x.head_size = 1;
  x.encoder_layers = x.decoder_layers = 10000;
  CHECK_THAT(only_complaint(x), ContainsSubstring("parameters; reduce"));
  CHECK_THROWS_AS(t5_spec(small_t5("v1.0"), {.name = "other"}), input_error);
}

TEST_CASE("a form decides the settings of a T5 that are not given", "[t5]") {
  t5_asked asked;
  asked.config = small_t5("megatron");
  auto given = shape_given();
  std::vector<std::string> wrong;
  const auto plain = resolve(asked, given, wrong).value();
  CHECK(plain.decoder_layers == 2);
  CHECK(plain.head_size == 6);
  CHECK(plain.ffn == 96);
  CHECK(plain.positions == 12);
  CHECK(plain.head_bias);
  asked.form = "v1.1";
  given.insert("model.norm_epsilon");
  const auto later = resolve(asked, given, wrong).value();
  CHECK(later.activation == "geglu");
  CHECK(later.norm_epsilon == 1e-5);
  CHECK(!later.tied_embeddings);
  CHECK(wrong.empty());
  given.insert("model.init_std");
  resolve(asked, given, wrong);
  REQUIRE(wrong.size() == 1);
  CHECK_THAT(wrong[0], ContainsSubstring("`model.init_std` does nothing"));
}

TEST_CASE("the kept settings of a T5 resolve to the same model", "[t5]") {
  t5_asked asked;
  asked.form = GENERATE("megatron", "v1.0", "v1.1");
  asked.config = small_t5("megatron");
  auto given = shape_given();
  std::vector<std::string> wrong;
  if (GENERATE(false, true)) {
    asked.layers = 4;
    given.insert("model.layers");
  }
  const auto first = resolve(asked, given, wrong).value();
  CHECK(first.decoder_layers == asked.layers.value_or(2));
  write_back(first, asked, given, false);
  CHECK(resolve(asked, given, wrong).value() == first);
  CHECK(wrong.empty());
}

TEST_CASE("config.json of a T5 gives the model back", "[t5]") {
  const auto& hub = *t5_family().hub();
  auto x = small_t5(GENERATE("v1.0", "v1.1"));
  x.activation = GENERATE("relu", "geglu", "swiglu", "gelu_erf");
  const model_description model = x;
  const auto back = hub.model_of(hub.config_json(model), "config.json");
  CHECK(hub.is_same_function(back, model));
  CHECK(&hub_config(hub.config_json(model), "config.json").family() == &t5_family());
}

TEST_CASE("a T5 of the Hub says which token begins the decoder's texts", "[t5]") {
  const auto& hub = *t5_family().hub();
  auto config = json_value(hub.config_json(small_t5("v1.0")));
  const auto start = [&] {
    return hub.model_of(json_text(config), "'config.json'").as<t5_config>().decoder_start;
  };
  CHECK(start() == 0);
  config["decoder_start_token_id"] = 3;
  config["pad_token_id"] = 2;
  CHECK(start() == 3);
  const auto model = hub.model_of(json_text(config), "'config.json'");
  CHECK(json_value(hub.config_json(model)).at("decoder_start_token_id") == 3);
  CHECK(model_from_json(to_json(model)) == model);
  config.erase("decoder_start_token_id");
  CHECK(start() == 2);
  config.erase("pad_token_id");
  CHECK(start() == 0);
  config["decoder_start_token_id"] = -1;
  CHECK_THROWS_WITH(start(), ContainsSubstring("'decoder_start_token_id'"));
}

TEST_CASE("a T5 of the Hub may have another first token of the decoder, or none of its own",
          "[t5]") {
  auto x = small_t5("v1.0");
  const auto json = to_json(model_description(x));
  CHECK_THAT(json, !ContainsSubstring("decoder_start"));
  const auto& hub = *t5_family().hub();
  const auto there = hub.model_of(hub.config_json(x), "'config.json'");
  CHECK(hub.is_same_function(there, x));
  t5_asked asked;
  std::vector<std::string> wrong;
  CHECK(resolve_hub(there.as<t5_config>(), asked, {}, "hub", wrong).decoder_start == 0);
  asked.config.decoder_start = 5;
  const given_settings given = {"model.decoder_start"};
  CHECK(resolve_hub(there.as<t5_config>(), asked, given, "hub", wrong).decoder_start == 5);
  CHECK(wrong.empty());
}

TEST_CASE("a T5 of the Hub takes sentinels, which its config.json does not name", "[t5]") {
  auto x = small_t5("v1.0");
  x.extra_ids = 5;
  const auto& hub = *t5_family().hub();
  const auto there = hub.model_of(hub.config_json(x), "'config.json'").as<t5_config>();
  t5_asked asked;
  asked.config.extra_ids = 5;
  std::vector<std::string> wrong;
  CHECK(resolve_hub(there, asked, {}, "hub", wrong).extra_ids == 0);
  const auto found = resolve_hub(there, asked, {"model.extra_ids"}, "hub", wrong);
  CHECK(found.extra_ids == 5);
  CHECK(t5_family().extra_tokens(found) == 5);
  CHECK(hub.is_same_function(there, found));
  CHECK(wrong.empty());
}

TEST_CASE("a T5 of transformers 5 says apart from the tie if its output layer is scaled", "[t5]") {
  const auto& hub = *t5_family().hub();
  auto config = json_value(hub.config_json(small_t5("v1.0")));
  config["scale_decoder_outputs"] = false;
  const auto read = hub.model_of(json_text(config), "'config.json'").as<t5_config>();
  CHECK(read.tied_embeddings);
  CHECK_FALSE(read.head_scaled);
  CHECK_FALSE(hub.is_same_function(read, small_t5("v1.0")));
  CHECK(hub.is_same_function(hub.model_of(hub.config_json(read), "'config.json'"), read));
  config.erase("scale_decoder_outputs");  // as older files
  CHECK(hub.model_of(json_text(config), "'config.json'").as<t5_config>().head_scaled);
  config["tie_word_embeddings"] = false;
  CHECK_FALSE(hub.model_of(json_text(config), "'config.json'").as<t5_config>().head_scaled);
  config["scale_decoder_outputs"] = true;
  CHECK_THROWS_AS(hub.model_of(json_text(config), "'config.json'"), input_error);
}

TEST_CASE("a T5 that no model of the Hub is, is refused with what that needs", "[t5]") {
  const auto& hub = *t5_family().hub();
  CHECK_THROWS_WITH(hub.config_json(small_t5("megatron")),
                    ContainsSubstring("`model.position` relative")
                        && ContainsSubstring("`model.form` v1.0 or v1.1"));
  CHECK_THROWS_WITH(
      hub.model_of(R"({"model_type": "t5", "feed_forward_proj": "gated-tanh"})", "config.json"),
      ContainsSubstring("feed_forward_proj"));
}

TEST_CASE("the decoder of a T5 begins and ends its text with tokens of the tokenizer", "[t5]") {
  const troupe::tests::byte_tokenizer text("", {"<pad>", "</s>", "<extra_id_0>"});
  const auto before = t5_family().text_before(t5_family().smallest(4), text);
  REQUIRE(before);
  CHECK(before->tokens == "encoder_tokens");
  CHECK(before->positions == "encoder_positions");
  CHECK(before->first == text.encode("<pad>", special_tokens::recognised));
  CHECK(before->end == text.encode("</s>", special_tokens::recognised).front());
  CHECK_THROWS_AS(t5_family().text_before(t5_family().smallest(4), troupe::tests::byte_tokenizer()),
                  input_error);
  auto told = t5_family().smallest(4);
  told.as<t5_config>().decoder_start = 7;
  CHECK(t5_family().text_before(told, text)->first == std::vector<std::int32_t>{7});
}

TEST_CASE("made-up samples of a T5 write all elements, and cut padding off", "[t5]") {
  const auto x = small_t5("v1.0");
  const data_settings data{.mock = true};
  const auto made = t5_samples().open(x, {.data = data, .samples = 40, .seed = 7});
  CHECK(made->schema() == t5_schema(x));
  CHECK(writes_all(*made, 3));
  CHECK_THROWS_AS(t5_samples().open(x, {.data = data, .prefix = "text", .samples = 1}),
                  input_error);
}
