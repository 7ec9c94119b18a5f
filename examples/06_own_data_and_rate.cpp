// Your own data and learning rate. The data set has Megatron-LM's indexed format, like the output
// of `troupe preprocess`: it is written, read back, split, shuffled and sampled here. The learning
// rate is a function.

#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/indexed_dataset_builder.hpp"
#include "scratch.hpp"
#include "small.hpp"

#include <fmt/format.h>

using namespace troupe::runtime;

/// Writes 300 documents of digits, 0 1 2 ..., each at least as long as a sample. 9 ends a document.
void write_documents(const std::filesystem::path& prefix) {
  indexed_dataset_builder to(prefix, 10);
  for (int document = 0; document < 300; ++document) {
    std::vector<std::int32_t> ids;
    for (int t = 0; t < 16 + document % 20; ++t)
      ids.push_back((document + t) % 9);
    ids.push_back(9);
    to.add_sequence(ids);
    to.end_document();
  }
  to.finish();  // the files get their final names only now
}

/// Warm-up, stable, decay: rises over 80 samples, stays constant, falls to 0 over the last 400 of
/// 1600.
double warm_up_stable_decay(std::int64_t consumed) {
  const double up = double(consumed) / 80, down = double(1600 - consumed) / 400;
  return 1e-2 * std::clamp(std::min(up, down), 0.0, 1.0);
}

int main() {
  const story::scratch folder("own_data");
  write_documents(folder / "digits");
  const auto documents = std::make_shared<indexed_dataset>(folder / "digits");

  auto recipe = story::small_recipe();
  recipe.rate_of = {.name = "warm-up, stable, decay", .at = warm_up_stable_decay};
  const split_matrix split("90,10");  // documents for training, for validation
  const auto source = [&](data_split part, std::uint64_t samples) {
    const auto data = std::make_shared<gpt_dataset>(
        documents,
        split,
        part,
        gpt_dataset_options{.sequence_length = recipe.model.sequence(),
                            .samples = samples,
                            .seed = std::uint32_t(recipe.seed),
                            .vocabulary = recipe.model.vocabulary(),
                            .end_of_document = 9});
    return std::make_shared<dataset_source>(
        data, batch_layout{std::uint64_t(recipe.batch.micro)}, memory_pool());
  };
  fmt::print("{} documents; for validation {}\n",
             documents->sequences(),
             split.of(data_split::valid, documents->sequences()).size());

  stream stream(backend_kind::cpu, 1, memory_pool());
  reference_trainer trainer(recipe, source(data_split::train, 1600), stream);
  for (int i = 0; i < 200; ++i) {
    const auto now = trainer.step();
    if (now.iteration % 50 == 1 || now.iteration == 200)
      fmt::print("iteration {:3}  learning rate {:.4f}\n", now.iteration, now.learning_rate);
  }
  const auto loss = trainer.evaluate(*source(data_split::valid, 32), 4).loss;
  fmt::print("validation loss below 0.3: {}\n", loss < 0.3);
}

// Expected output:
//   300 documents; for validation 30
//   iteration   1  learning rate 0.0000
//   iteration  51  learning rate 0.0100
//   iteration 101  learning rate 0.0100
//   iteration 151  learning rate 0.0100
//   iteration 200  learning rate 0.0002
//   validation loss below 0.3: true
