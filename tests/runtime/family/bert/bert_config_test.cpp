#include "runtime/family/bert/bert_config.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/families.hpp"
#include "runtime/model/counts.hpp"
#include "tests/support/sample_row.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

bert_config small_bert() {
  auto out = bert_family().smallest(3).as<bert_config>();
  out.sequence = out.positions = 12;
  return out;
}

/// bert-base-uncased.
bert_config base_bert() {
  bert_config out;
  out.layers = 12;
  out.hidden = 768;
  out.heads = 12;
  out.ffn = 3072;
  out.sequence = out.positions = 512;
  out.vocabulary = out.padded_vocabulary = 30522;
  out.post_norm = true;
  out.norm_epsilon = 1e-12;
  out.activation = troupe::kernels::activation::gelu_erf;
  return out;
}

/// "is_random" of a sample.
int order_of(const sample_dataset& data, std::uint64_t i) {
  memory_pool pool;
  const auto batch = empty_batch(data.schema(), 1, pool);
  const sample_view row(batch, 0);
  data.fill(i, row);
  return row.at<std::int32_t>("is_random").front();
}

std::string only_bert_complaint(const bert_config& x) {
  const auto all = validate(x);
  REQUIRE(all.size() == 1);
  return all[0];
}

given_settings bert_shape_given() {
  return {"model.layers", "model.hidden", "model.heads", "model.sequence"};
}

bert_config resolved_bert(const bert_config& asked, given_settings given) {
  std::vector<std::string> wrong;
  given.merge(bert_shape_given());
  const auto out = bert_family().resolve(bert_asked{.config = asked}, given, wrong);
  REQUIRE(out);
  CHECK(wrong.empty());
  return out->as<bert_config>();
}

}  // namespace

TEST_CASE("a BERT is valid, and its JSON gives it back", "[bert]") {
  for (const bool post_norm : {false, true})
    for (const bool binary_head : {false, true}) {
      CAPTURE(post_norm, binary_head);
      auto x = small_bert();
      x.post_norm = post_norm;
      x.binary_head = binary_head;
      x.types = binary_head ? 2 : 0;
      const model_description model = x;
      CHECK(validate(model).empty());
      CHECK(model_from_json(to_json(model)) == model);
      CHECK_THAT(to_json(model), ContainsSubstring(R"("family")"));
      CHECK(model.letters() == model.spec().letters());
    }
}

TEST_CASE("BERTs have as many parameters as the published ones", "[bert]") {
  auto x = base_bert();
  CHECK(parameter_count(x) == 110106428);  // BertForPreTraining
  x.binary_head = false;
  CHECK(parameter_count(x) == 109514298);  // BertForMaskedLM
}

TEST_CASE("a pre-norm BERT has one norm more behind its layers, and none of its embedding",
          "[bert]") {
  auto x = small_bert();
  const auto before = parameter_count(x);
  x.post_norm = true;
  CHECK(parameter_count(x) == before);
  CHECK(model_description(x).letters()
        == unit_letters{{'E', 1}, {'t', 3, true}, {'P', 1}, {'L', 1}});
  CHECK(model_description(small_bert()).letters()
        == unit_letters{{'E', 1}, {'t', 3, true}, {'n', 1}, {'P', 1}, {'L', 1}});
}

TEST_CASE("the losses of a BERT are those of Megatron-LM, with weight 1", "[bert]") {
  auto x = small_bert();
  const auto both = losses_of(bert_spec(x, {}));
  REQUIRE(both.size() == 2);
  CHECK(both[0].name == "lm loss");
  CHECK(both[1].name == "sop loss");
  CHECK(both[0].weight == 1);
  CHECK(both[1].weight == 1);
  x.binary_head = false;
  CHECK(is_only_lm_loss(losses_of(bert_spec(x, {}))));
}

TEST_CASE("each wrong size of a BERT is told with the nearest value", "[bert]") {
  auto x = small_bert();
  x.heads = 3;
  CHECK_THAT(only_bert_complaint(x), ContainsSubstring("`model.hidden` 15"));
  x = small_bert();
  x.positions = 11;
  CHECK_THAT(only_bert_complaint(x), ContainsSubstring("at least 12"));
  x = small_bert();
  x.layers = 0;
  CHECK_THAT(only_bert_complaint(x), ContainsSubstring("`model.layers` is 0"));
  x = small_bert();
  x.types = 0;
  CHECK_THAT(only_bert_complaint(x), ContainsSubstring("`model.types` is 0"));
  x = small_bert();
  x.padded_vocabulary = 28;
  CHECK_THAT(only_bert_complaint(x), ContainsSubstring("give at least 29"));
  x = small_bert();
  x.hidden_dropout = 1;
  CHECK_THAT(only_bert_complaint(x), ContainsSubstring("`model.hidden_dropout` is 1"));
}

TEST_CASE("settings of a BERT that were not given follow from others", "[bert]") {
  auto asked = small_bert();
  asked.ffn = asked.positions = 0;
  const auto pre = resolved_bert(asked, {});
  CHECK(pre.ffn == 64);
  CHECK(pre.positions == 12);
  CHECK(pre.norm_epsilon == 1e-5);
  CHECK(pre.types == 2);
  asked.post_norm = true;
  asked.binary_head = false;
  const auto post = resolved_bert(asked, {"model.post_norm", "model.binary_head=false"});
  CHECK(post.norm_epsilon == 1e-12);
  CHECK(post.types == 0);
  std::vector<std::string> wrong;
  CHECK_FALSE(bert_family().resolve(bert_asked{.config = asked}, {"model.layers"}, wrong));
}

TEST_CASE("a BERT may be told the sizes that it has in any case, and no others", "[bert]") {
  auto x = small_bert();
  bert_asked asked{.config = x, .head_size = x.hidden / x.heads, .groups = x.heads};
  auto given = bert_shape_given();
  given.insert({"model.head_size", "model.groups"});
  std::vector<std::string> wrong;
  const auto made = bert_family().resolve(asked, given, wrong);
  REQUIRE(made);
  CHECK(made->as<bert_config>() == resolved_bert(x, {}));
  CHECK(wrong.empty());
  asked.head_size = x.hidden;
  asked.groups = 1;
  bert_family().resolve(asked, given, wrong);
  REQUIRE(wrong.size() == 2);
  CHECK_THAT(wrong[0], ContainsSubstring("`model.head_size`"));
  CHECK_THAT(wrong[1], ContainsSubstring("`model.groups` is 1"));
  wrong.clear();
  bert_family().resolve_hub(x, asked, given, "DIR", wrong);
  CHECK(wrong.size() == 2);
}

TEST_CASE("a model of the Hub gives its config.json back", "[bert]") {
  auto x = base_bert();
  x.post_norm = GENERATE(false, true);
  x.binary_head = GENERATE(false, true);
  x.head_activation = x.activation;
  x.hidden_dropout = x.attention_dropout = 0;
  CHECK(hub_config(bert_family().hub()->config_json(x), "'config.json'") == model_description(x));
}

TEST_CASE("a run may leave out the binary head of its Hub folder, and cannot add one", "[bert]") {
  auto there = base_bert();
  auto asked = bert_config();
  std::vector<std::string> wrong;
  const auto with = [&](const given_settings& given) {
    const bert_asked all{.config = asked};
    return bert_family().resolve_hub(there, all, given, "DIR", wrong).as<bert_config>();
  };
  CHECK(with({}).binary_head);
  there.binary_head = false;
  CHECK_FALSE(with({}).binary_head);
  there.binary_head = true;
  asked.binary_head = false;
  const auto without = with({"model.binary_head", "model.binary_head=false"});
  CHECK_FALSE(without.binary_head);
  CHECK(without.types == 2);
  CHECK(validate(without).empty());
  CHECK(wrong.empty());
}

TEST_CASE("a BERT that the Hub cannot say is refused", "[bert]") {
  const auto& hub = *bert_family().hub();
  const auto refuses = [&](const bert_config& x, const char* setting) {
    CHECK_THROWS_AS(hub.config_json(x), input_error);
    try {
      hub.config_json(x);
    } catch (const input_error& e) {
      CHECK_THAT(e.what(), ContainsSubstring(setting));
    }
  };
  refuses(small_bert(), "`model.activation=gelu_erf`");
  auto x = base_bert();
  x.binary_head = false;
  x.types = 0;
  refuses(x, "`model.binary_head=false`");
}

TEST_CASE("a config.json of another kind of BERT is refused with the field", "[bert]") {
  const auto [field, value, told] = GENERATE(table<const char*, nlohmann::json, const char*>(
      {{"architectures",
        nlohmann::json::array({"BertForTokenClassification"}),
        "BertForPreTraining"},
       {"hidden_act", "swish", "gelu_new"},
       {"is_decoder", true, "is_decoder"},
       {"position_embedding_type", "relative_key", "absolute"},
       {"num_attention_heads", 7, "`model.heads` 7"}}));
  auto config = json_value(bert_family().hub()->config_json(base_bert()));
  config[field] = value;
  CHECK_THROWS_WITH(hub_config(json_text(config), "'config.json'"), ContainsSubstring(told));
}

TEST_CASE("made-up sentences have masked tokens, two types and an order", "[bert]") {
  auto x = small_bert();
  x.binary_head = GENERATE(true, false);
  x.types = x.binary_head ? 2 : 0;
  const auto samples = bert_samples().open(x, {.data = {.mock = true}, .samples = 200, .seed = 7});
  CHECK(samples->size() == 200);
  CHECK_THROWS_AS(row_of(*samples, 200), input_error);
  int swapped = 0, padded = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    CHECK(writes_all(*samples, i));
    const auto row = row_of(*samples, i);
    CHECK(std::ranges::count(row.mask, 1.0F) >= 1);
    CHECK(row.tokens[0] == 0);
    CHECK(std::ranges::max(row.tokens) < x.vocabulary);
    for (std::size_t t = 0; t < row.mask.size(); ++t)
      CHECK((row.mask[t] == 1) == (row.labels[t] >= 3));
    padded += row.cuts.empty() ? 0 : 1;
    swapped += x.binary_head ? order_of(*samples, i) : 0;
  }
  CHECK(padded > 100);
  CHECK((swapped > 60) == x.binary_head);
}
