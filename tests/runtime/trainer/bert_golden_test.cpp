// BERTs, compared with transformers and Megatron-core (tests/golden/bert/README.md).

#include "runtime/family/bert/bert.hpp"
#include "runtime/family/tasks.hpp"
#include "tests/support/golden_family.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests::golden;

namespace {

/// Texts of T rows, one after the other.
void fill_task(const json& from, std::int64_t T, const sample_view& to) {
  std::map<std::string, std::vector<std::int32_t>> all;
  for (const auto& text : from["texts"]) {
    const auto begin = std::int64_t(all["tokens"].size());
    if (begin > 0)
      to.cut(begin);
    for (const auto* part : {"tokens", "types"}) {
      const auto values = text[part].get<std::vector<std::int32_t>>();
      all[part].insert(all[part].end(), values.begin(), values.end());
      all[part].resize(std::size_t(begin + T));
    }
    for (std::int32_t t = 0; t < T; ++t)
      all["positions"].push_back(t);
    if (const auto real = std::int64_t(text["tokens"].size()); real < T)
      to.cut(begin + real);
  }
  for (const auto& [part, values] : all)
    put(to, part.c_str(), values);
  put(to, "classes", json::array({from["label"]}));
  to.at<float>("counted").front() = 1;
}

/// The model that bert_model.py writes: for Megatron-core with its parameters' names.
golden_family open_bert(const std::string& name,
                        const std::filesystem::path& folder,
                        const json& golden) {
  write_golden_model("bert", name, folder);
  bert_config shape;
  golden_family out;
  if (name != "bert_megatron") {
    const auto hub = std::make_shared<hub_model>(read_hub_model(folder));
    shape = hub->config().as<bert_config>();
    out.read = reader_of_hub(hub);
  } else {
    const auto& c = golden["model"];
    shape.layers = c["num_hidden_layers"];
    shape.hidden = c["hidden_size"];
    shape.heads = c["num_attention_heads"];
    shape.ffn = c["intermediate_size"];
    shape.vocabulary = shape.padded_vocabulary = c["vocab_size"];
    shape.positions = c["max_position_embeddings"];
    shape.norm_epsilon = c["layer_norm_eps"];
    shape.hidden_dropout = shape.attention_dropout = 0;
    out.read = reader_of_file(folder);
  }
  shape.sequence = golden["training"]["sequence_length"];
  if (name == "bert_choices" || name == "bert_classes") {
    shape.task.kind = name == "bert_choices" ? task_kind::race : task_kind::csv;
    if (name == "bert_classes")
      shape.task.labels = {"a", "b", "c"};
    out.read = [body = out.read, head = reader_of_file(folder / "head")](
                   const std::string& parameter, std::span<float> to) {
      (parameter.starts_with(task_head_prefix) ? head(parameter, to) : body(parameter, to));
    };
    out.shape = shape;
    out.fill
        = [T = shape.sequence](const json& from, const sample_view& to) { fill_task(from, T, to); };
    return out;
  }
  out.shape = shape;
  out.fill = [shape](const json& from, const sample_view& to) {
    for (const auto* part : {"tokens", "types", "labels"})
      put(to, part, from[part]);
    put_positions(to, "positions");
    put_mask(to, from["mask"].get<std::vector<float>>());
    if (shape.binary_head)
      put(to, "is_random", json::array({from["is_random"]}));
    if (const auto real = std::int64_t(from["tokens"].size()); real < shape.sequence)
      to.cut(real);
  };
  return out;
}

}  // namespace

TEST_CASE("the reference trainer reproduces BERTs of transformers and Megatron-core",
          "[golden][bert][unsanitized]") {
  const std::string name = GENERATE(
      "bert_post", "bert_masked", "bert_pre", "bert_megatron", "bert_classes", "bert_choices");
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  const auto layout = GENERATE(reference_layout{},
                               reference_layout{.tensor = 2},
                               reference_layout{.tensor = 2, .sequence_parallel = true});
  CAPTURE(name, int(where), layout.tensor, layout.sequence_parallel);
  const tests::scratch_folder folder;
  const auto golden = golden_of("bert", name);
  auto model = open_bert(name, folder / "model", golden);
  auto& shape = model.shape.as<bert_config>();
  shape.padded_vocabulary = padded_vocabulary_size(shape.vocabulary, 64, 2);
  check_steps(model, golden, where, layout);
}

TEST_CASE("an imported BERT has the logits of transformers", "[golden][bert][unsanitized]") {
  const std::string name = GENERATE(
      "bert_post", "bert_masked", "bert_pre", "bert_megatron", "bert_classes", "bert_choices");
  CAPTURE(name);
  const tests::scratch_folder folder;
  const auto golden = golden_of("bert", name);
  check_logits(open_bert(name, folder / "model", golden), golden);
}
