// Repeats golden runs of model families whose samples are texts with padding (tests/golden/t5,
// tests/golden/bert), and compares steps and logits.

#pragma once

#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/golden_run.hpp"

#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tests::golden {

/// A model of a golden run, in a folder that a script has written.
struct golden_family {
  model_description shape;
  std::function<void(const std::string& parameter, std::span<float>)> read;
  /// Writes a sample of the file, with padding.
  std::function<void(const json& from, const sample_view& out)> fill;
};

inline json golden_of(const std::string& family, const std::string& name) {
  return json::parse(read_text(source_dir() + "/tests/golden/" + family + "/" + name + ".json"));
}

/// Runs FAMILY_model.py NAME FOLDER.
inline void write_golden_model(const std::string& family,
                               const std::string& name,
                               const std::filesystem::path& folder) {
  const auto script = source_dir() + "/tests/golden/" + family + "/" + family + "_model.py ";
  REQUIRE(std::system(("python3 -B " + script + name + " " + folder.string()).c_str()) == 0);
}

/// Reads the parameters of a Hub folder, or of a file with Troupe's names.
inline auto reader_of_hub(std::shared_ptr<const hub_model> hub) {
  return [hub](const std::string& parameter, std::span<float> to) { hub->read(parameter, to); };
}
inline auto reader_of_file(const std::filesystem::path& folder) {
  return [file = std::make_shared<safetensors_file>(folder / "model.safetensors")](
             const std::string& parameter, std::span<float> to) {
    file->read(stored(*file, parameter), 0, to);
  };
}

/// Values, then zeros.
inline void put(const sample_view& out, const char* name, const json& values) {
  const auto to = out.at<std::int32_t>(name);
  std::ranges::fill(to, 0);
  std::ranges::copy(values.get<std::vector<std::int32_t>>(), to.begin());
}
inline void put_positions(const sample_view& out, const char* name) {
  const auto to = out.at<std::int32_t>(name);
  std::iota(to.begin(), to.end(), 0);
}
inline void put_mask(const sample_view& out, const std::vector<float>& values) {
  const auto to = out.at<float>("mask");
  std::ranges::fill(to, 0.0F);
  std::ranges::copy(values, to.begin());
}

/// Serves the samples of a golden file.
class golden_texts final : public batch_source {
 public:
  golden_texts(const golden_family& of, json data, const batch_schedule& batch)
      : of_(of), data_(std::move(data)), batch_(batch) {}

  bundle microbatch(const microbatch_address& at) const override {
    const auto& step = data_.at(at.consumed / std::uint64_t(batch_.global));
    const auto first = std::size_t(
        (std::int64_t(at.microbatch) * batch_.data_parallel + std::int64_t(at.replica))
        * batch_.micro);
    const dataset_source all(
        std::make_shared<some_texts>(of_, step, first), {std::uint64_t(batch_.micro), 1}, pool_);
    return all.microbatch({.consumed = 0, .microbatch = 0, .replica = 0});
  }

 private:
  class some_texts final : public sample_dataset {
   public:
    some_texts(const golden_family& of, json step, std::size_t first)
        : of_(of), step_(std::move(step)), first_(first) {}
    std::uint64_t size() const override { return step_.size() - first_; }
    batch_schema schema() const override {
      return of_.shape.family().samples().schema(of_.shape, {});
    }
    void fill(std::uint64_t i, const sample_view& out) const override {
      of_.fill(step_.at(first_ + i), out);
    }

   private:
    const golden_family& of_;
    json step_;
    std::size_t first_;
  };

  golden_family of_;
  json data_;
  batch_schedule batch_;
  mutable memory_pool pool_;
};

/// The field of a loss in a golden file.
inline std::string field_of(std::string loss) {
  std::ranges::replace(loss, ' ', '_');
  return loss;
}

/// Takes the steps of a golden run. Losses are equal to 1e-5 and norms to 1e-4, both relative.
inline void check_steps(const golden_family& model,
                        const json& golden,
                        kernels::backend where,
                        const reference_layout& layout) {
  auto recipe = recipe_of(golden["training"]);
  recipe.model = model.shape;
  stream stream(where, 1, {});
  reference_trainer trainer(
      recipe, std::make_shared<golden_texts>(model, golden["data"], recipe.batch), stream, layout);
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
    const double norm = expected["grad_norm"];
    const auto losses = by_name(report.losses, report.loss);
    std::size_t told = 0;
    for (const auto& [field, value] : expected.items())
      told += field.ends_with("_loss") || field == "accuracy" ? 1 : 0;
    CHECK(losses.size() == told);
    for (const auto& [name, found] : losses) {
      const double loss = expected.at(field_of(name));
      CAPTURE(name, found, loss);
      CHECK(std::abs(found - loss) <= 1e-5 * loss);
    }
    const double rate = expected["learning_rate"];  // nine digits
    CHECK(std::abs(report.learning_rate - rate) <= 1e-8 * rate);
    CHECK(std::abs(report.grad_norm - norm) < 1e-4 * norm);
  }
}

/// True for tensors of a batch that losses read; without them a model gives logits.
inline bool is_target(std::string_view name) {
  constexpr std::string_view all[] = {"labels", "mask", "is_random", "classes", "counted"};
  return std::ranges::find(all, name) != std::end(all);
}

/// Compares the logits of the first sample before training, to 1e-5.
inline void check_logits(const golden_family& model, const json& golden) {
  const auto spec = model.shape.spec();
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
  bundle in;
  for (const auto& [part, x] :
       golden_texts(model, golden["data"], recipe_of(golden["training"]).batch)
           .microbatch({.consumed = 0}))
    if (!is_target(part))
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

}  // namespace troupe::tests::golden
