// Folders of BERTs, with heads and without.

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/checkpoint/initial_parameters.hpp"
#include "runtime/core/error.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

bert_config exportable_bert() {
  auto out = bert_family().smallest(2).as<bert_config>();
  out.activation = troupe::kernels::activation::gelu_erf;
  out.padded_vocabulary = out.vocabulary;
  out.hidden_dropout = out.attention_dropout = 0;
  return out;
}

void write_drawn(const fs::path& to, const bert_config& model, hub_parts parts) {
  const initial_parameters values(model, 7);
  write_hub_model(to,
                  {.model = model, .end_of_document = {}, .parts = parts},
                  [&](const std::string& name, const box& part, std::span<float> out) {
                    values.draw(*values.find(name), part, out);
                  });
}

std::vector<float> read_all(const hub_model& model, const std::string& name) {
  std::vector<float> out(std::size_t(model.extents(name).size()));
  model.read(name, out);
  return out;
}

nlohmann::json config_in(const fs::path& folder) {
  return nlohmann::json::parse(read_text(folder / "config.json"));
}

}  // namespace

TEST_CASE("a BertModel has the parameters of a BERT for pre-training without its heads",
          "[checkpoint][bert]") {
  auto x = exportable_bert();
  x.post_norm = GENERATE(true, false);
  const scratch_folder dir;
  write_drawn(dir / "all", x, hub_parts::all);
  write_drawn(dir / "body", x, hub_parts::body);
  const std::string title = x.post_norm ? "Bert" : "MegatronBert";
  CHECK(config_in(dir / "all")["architectures"]
        == nlohmann::json::array({title + "ForPreTraining"}));
  CHECK(config_in(dir / "body")["architectures"] == nlohmann::json::array({title + "Model"}));
  const safetensors_file file(dir / "body" / "model.safetensors");
  CHECK(file.find("embeddings.word_embeddings.weight") != nullptr);
  CHECK(file.find("pooler.dense.bias") != nullptr);
  CHECK(std::ranges::none_of(file.tensors(), [](const auto& tensor) {
    return tensor.name.starts_with("bert.") || tensor.name.starts_with("cls.");
  }));

  const auto all = read_hub_model(dir / "all"), body = read_hub_model(dir / "body");
  CHECK(body.config() == all.config());
  std::set<std::string> heads;
  for (const auto& parameter : all.parameters())
    if (body.has(parameter.name))
      CHECK(read_all(body, parameter.name) == read_all(all, parameter.name));
    else
      heads.insert(parameter.name);
  CHECK(heads
        == std::set<std::string>{"binary_head.weight",
                                 "binary_head.bias",
                                 "lm_head.dense.weight",
                                 "lm_head.dense.bias",
                                 "lm_head.layer_norm.weight",
                                 "lm_head.layer_norm.bias",
                                 "output_layer.bias"});
}

TEST_CASE("the tensors of a BertModel have the names of transformers 5.24", "[checkpoint][bert]") {
  auto x = exportable_bert();
  x.layers = 1;
  x.post_norm = GENERATE(true, false);
  std::set<std::string> expected = {"embeddings.word_embeddings.weight",
                                    "embeddings.position_embeddings.weight",
                                    "embeddings.token_type_embeddings.weight"};
  std::vector<std::string> layers = {"attention.self.query",
                                     "attention.self.key",
                                     "attention.self.value",
                                     "attention.output.dense",
                                     "intermediate.dense",
                                     "output.dense"};
  for (const auto* norm : x.post_norm ? std::array{"attention.output.LayerNorm", "output.LayerNorm"}
                                      : std::array{"attention.ln", "ln"})
    layers.emplace_back(norm);
  for (auto& name : layers)
    name.insert(0, "encoder.layer.0.");
  layers.emplace_back(x.post_norm ? "embeddings.LayerNorm" : "encoder.ln");
  layers.emplace_back("pooler.dense");
  for (const auto& name : layers)
    for (const auto* kind : {".weight", ".bias"})
      expected.insert(name + kind);
  CHECK(expected.size() == 23);
  std::set<std::string> names;
  for (const auto& tensor : hub_tensors(x, hub_parts::body))
    names.insert(tensor.name);
  CHECK(names == expected);
}

TEST_CASE("the heads that a BertModel lacks begin with initial values", "[checkpoint][bert]") {
  const auto x = exportable_bert();
  const scratch_folder dir;
  write_drawn(dir / "body", x, hub_parts::body);
  const auto body = read_hub_model(dir / "body");
  const initial_parameters begun(body.config());
  const auto has = [&](std::string_view name) { return body.has(name); };
  CHECK(begun.told(has, "DIR")
        == "'DIR' lacks 7 parameters of heads, such as 'binary_head.bias': they begin with "
           "initial values");
  CHECK(begun.told([](std::string_view) { return true; }, "DIR").empty());
  for (const auto* lacking : begun.lacking(has))
    CHECK(bert_family().begins_anew(x, lacking->name));
  CHECK_FALSE(bert_family().begins_anew(x, "encoder.layers.0.mlp.linear_fc1.weight"));

  const directory_lock lock(dir / "save");
  const auto saved
      = open_checkpoint(save_hub_model(body, dir / "save", lock, R"({"tokenizer": null})"));
  CHECK(saved->names().size() == body.parameters().size() + 7);
  const std::string head = "lm_head.dense.weight", product = "pooler.dense.weight";
  std::vector<float> read(std::size_t(x.hidden * x.hidden)), drawn = read;
  begun.draw(*begun.find(head), whole(shape{x.hidden, x.hidden}), drawn);
  saved->read(head, read);
  CHECK(read == drawn);
  CHECK(std::ranges::any_of(read, [](float value) { return value != 0; }));
  saved->read(product, read);
  CHECK(read == read_all(body, product));
}

TEST_CASE("a folder for pre-training without a head is refused as incomplete",
          "[checkpoint][bert]") {
  auto x = exportable_bert();
  x.binary_head = false;
  const scratch_folder dir;
  write_drawn(dir / "tokens", x, hub_parts::all);
  auto config = config_in(dir / "tokens");
  config["architectures"] = nlohmann::json::array({"MegatronBertForPreTraining"});
  write_text(dir / "tokens" / "config.json", config.dump());
  CHECK_THROWS_WITH(read_hub_model(dir / "tokens"), ContainsSubstring("bert.pooler.dense.weight"));
}

TEST_CASE("a BERT with the tanh formula in its layers is exported without its heads",
          "[checkpoint][bert]") {
  auto x = exportable_bert();
  x.activation = troupe::kernels::activation::gelu_tanh;
  const scratch_folder dir;
  CHECK_THROWS_WITH(write_drawn(dir / "all", x, hub_parts::all),
                    ContainsSubstring("without its heads"));
  write_drawn(dir / "body", x, hub_parts::body);
  CHECK(config_in(dir / "body")["hidden_act"] == "gelu_new");
}

TEST_CASE("a fine-tuned BERT is exported with the head of its task", "[checkpoint][bert]") {
  auto x = exportable_bert();
  x.post_norm = true;
  x.activation = troupe::kernels::activation::gelu_tanh;
  x.task.train = {"train"};
  const auto [kind, architecture, classes] = GENERATE(table<task_kind, const char*, std::int64_t>(
      {{task_kind::mnli, "BertForSequenceClassification", 3},
       {task_kind::csv, "BertForSequenceClassification", 2},
       {task_kind::race, "BertForMultipleChoice", 1}}));
  x.task.kind = kind;
  if (kind == task_kind::csv)
    x.task.labels = {"bad", "good"};
  const scratch_folder dir;
  write_drawn(dir / "task", x, hub_parts::all);
  const auto config = config_in(dir / "task");
  CHECK(config["architectures"] == nlohmann::json::array({architecture}));
  CHECK(config.contains("id2label") == (classes > 1));
  if (kind == task_kind::csv) {
    CHECK(config["id2label"]["1"] == "good");
    CHECK(config["label2id"]["good"] == 1);
  }
  const safetensors_file file(dir / "task" / "model.safetensors");
  REQUIRE(file.find("classifier.weight") != nullptr);
  CHECK(file.find("classifier.weight")->extents == shape{classes, x.hidden});
  CHECK(file.find("bert.pooler.dense.weight") != nullptr);
  CHECK(file.find("cls.predictions.bias") == nullptr);
}
