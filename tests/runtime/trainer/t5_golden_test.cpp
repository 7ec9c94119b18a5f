// T5s, compared with transformers and Megatron-core (tests/golden/t5/README.md).

#include "runtime/family/t5/t5.hpp"
#include "runtime/family/t5/t5_samples.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/golden_run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests::golden;

namespace {

const std::string t5_folder = tests::source_dir() + "/tests/golden/t5/";

struct golden_t5 {
  t5_config shape;
  std::function<void(const std::string& parameter, std::span<float>)> read;
};

/// The model that t5_model.py writes: for Megatron-core with its parameters' names.
golden_t5 open_t5(const std::string& name,
                  const std::filesystem::path& folder,
                  const json& golden) {
  const auto make = "python3 -B " + t5_folder + "t5_model.py " + name + " " + folder.string();
  REQUIRE(std::system(make.c_str()) == 0);
  golden_t5 out;
  if (name != "t5_megatron") {
    auto hub = std::make_shared<hub_model>(read_hub_model(folder));
    out = {hub->config().as<t5_config>(),
           [hub](const std::string& parameter, auto to) { hub->read(parameter, to); }};
  } else {
    const auto& c = golden["model"];
    out.shape.encoder_layers = c["num_layers"];
    out.shape.decoder_layers = c["num_decoder_layers"];
    out.shape.hidden = c["d_model"];
    out.shape.heads = c["num_heads"];
    out.shape.head_size = c["d_kv"];
    out.shape.ffn = c["d_ff"];
    out.shape.vocabulary = out.shape.padded_vocabulary = c["vocab_size"];
    out.shape.positions = c["n_positions"];
    out.shape.norm_epsilon = c["layer_norm_epsilon"];
    out.shape.hidden_dropout = out.shape.attention_dropout = 0;
    const auto file = std::make_shared<safetensors_file>(folder / "model.safetensors");
    out.read = [file](const std::string& parameter, auto to) {
      file->read(tests::stored(*file, parameter), 0, to);
    };
  }
  out.shape.encoder_sequence = golden["training"]["encoder_sequence_length"];
  out.shape.decoder_sequence = golden["training"]["sequence_length"];
  return out;
}

/// Serves the samples of a golden file.
class golden_texts final : public batch_source {
 public:
  golden_texts(const t5_config& of, json data, const batch_schedule& batch)
      : schema_(t5_schema(of)), data_(std::move(data)), batch_(batch) {}

  bundle microbatch(const microbatch_address& at) const override {
    const auto& step = data_.at(at.consumed / step_size());
    const auto schema = schema_;
    const auto first = std::size_t(
        (std::int64_t(at.microbatch) * batch_.data_parallel + std::int64_t(at.replica))
        * batch_.micro);
    const auto source = std::make_shared<some_texts>(schema, step, first);
    const dataset_source all(source, {std::uint64_t(batch_.micro), 1}, pool_);
    return all.microbatch({.consumed = 0, .microbatch = 0, .replica = 0});
  }

 private:
  class some_texts final : public sample_dataset {
   public:
    some_texts(batch_schema schema, json step, std::size_t first)
        : schema_(std::move(schema)), step_(std::move(step)), first_(first) {}
    std::uint64_t size() const override { return step_.size() - first_; }
    batch_schema schema() const override { return schema_; }
    void fill(std::uint64_t i, const sample_view& out) const override {
      const auto& x = step_.at(first_ + i);
      const auto put = [&out](const char* name, const json& values) {
        const auto to = out.at<std::int32_t>(name);
        std::ranges::fill(to, 0);
        std::ranges::copy(values.get<std::vector<std::int32_t>>(), to.begin());
      };
      put("encoder_tokens", x["encoder"]);
      put("tokens", x["tokens"]);
      put("labels", x["labels"]);
      for (const auto* name : {"encoder_positions", "positions"}) {
        const auto to = out.at<std::int32_t>(name);
        std::iota(to.begin(), to.end(), 0);
      }
      const auto mask = out.at<float>("mask");
      const auto said = x["labels"].size();
      std::ranges::fill(mask, 0.0F);
      std::fill_n(mask.begin(), said, 1.0F);
      out.cut(std::int64_t(x["encoder"].size()), "encoder_documents");
      out.cut(std::int64_t(said));
    }

   private:
    batch_schema schema_;
    json step_;
    std::size_t first_;
  };

  std::uint64_t step_size() const { return std::uint64_t(batch_.global); }

  batch_schema schema_;
  json data_;
  batch_schedule batch_;
  mutable memory_pool pool_;
};

json golden_of(const std::string& name) {
  return json::parse(read_text(t5_folder + name + ".json"));
}

}  // namespace

TEST_CASE("the reference trainer reproduces T5s of transformers and Megatron-core",
          "[golden][t5][unsanitized]") {
  const std::string name = GENERATE("t5_v1_0", "t5_v1_1", "t5_megatron");
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  const auto layout = GENERATE(reference_layout{},
                               reference_layout{.tensor = 2},
                               reference_layout{.tensor = 2, .sequence_parallel = true});
  CAPTURE(name, int(where), layout.tensor, layout.sequence_parallel);
  const tests::scratch_folder folder;
  const auto golden = golden_of(name);
  auto model = open_t5(name, folder / "model", golden);
  model.shape.padded_vocabulary = padded_vocabulary_size(model.shape.vocabulary, 64, 2);
  auto recipe = recipe_of(golden["training"]);
  recipe.model = model.shape;
  stream stream(where, 1, {});
  reference_trainer trainer(
      recipe,
      std::make_shared<golden_texts>(model.shape, golden["data"], recipe.batch),
      stream,
      layout);
  trainer.each([&](worker& rank) {
    rank.restore(
        [&](const state_shard& to) {
          std::vector<float> all(std::size_t(to.whole.size()));
          model.read(to.name, all);
          fill(to, all);
        },
        false);
  });
  for (const auto& expected : golden["steps"]) {
    const auto report = trainer.step();
    CAPTURE(report.iteration);
    const double loss = expected["lm_loss"], norm = expected["grad_norm"];
    CHECK(std::abs(report.learning_rate - expected["learning_rate"].get<double>()) < 1e-12);
    CHECK(std::abs(report.loss - loss) < 1e-5 * loss);
    CHECK(std::abs(report.grad_norm - norm) < 1e-4 * norm);
  }
}

TEST_CASE("an imported T5 has the logits of transformers", "[golden][t5][unsanitized]") {
  const std::string name = GENERATE("t5_v1_0", "t5_v1_1", "t5_megatron");
  CAPTURE(name);
  const tests::scratch_folder folder;
  const auto golden = golden_of(name);
  const auto model = open_t5(name, folder / "model", golden);
  const auto spec = t5_spec(model.shape);
  stream by(kernels::backend::cpu, 1, {});
  const chunk all(spec, all_of(spec));
  const recompute_plan plan(all, {});
  resident_store store(all.units(), 1, {});
  for (const auto& e : store.entries()) {
    if (!e.spec.tied_to.empty())
      continue;
    std::vector<float> values(std::size_t(e.spec.extents.size()));
    model.read(e.spec.name, values);
    store.set(e, 0, values);
  }
  auto batch = recipe_of(golden["training"]).batch;
  bundle in;
  for (const auto& [part, x] :
       golden_texts(model.shape, golden["data"], batch).microbatch({.consumed = 0}))
    if (part != "labels" && part != "mask")
      in.add(part, x);
  chunk_pass pass(all, plan, by, store, {.training = false, .losses = false});
  const auto out = pass.forward(in).at("logits");
  const auto found = out.elements<float>();
  for (const auto& row : golden["first_logits"]) {
    const auto t = row["position"].get<std::size_t>();
    const auto expected = row["values"].get<std::vector<float>>();
    for (std::size_t v = 0; v < expected.size(); ++v) {
      CAPTURE(t, v);
      CHECK(std::abs(found[t * expected.size() + v] - expected[v])
            < 1e-5 * std::max(1.0F, std::abs(expected[v])));
    }
  }
}
