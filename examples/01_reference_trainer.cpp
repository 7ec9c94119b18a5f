// Training in one page: a recipe, data and steps, in one thread and without actors.
//
// This is the reference trainer: actors must produce the same states from the same recipe, bit for
// bit.

#include "small.hpp"

#include <fmt/format.h>

using namespace troupe::runtime;

int main() {
  const auto recipe = story::small_recipe();

  // A stream runs operations: it has a backend, a number of threads and a memory pool.
  stream stream(backend_kind::cpu, 1, memory_pool());
  reference_trainer trainer(recipe, std::make_shared<story::counting>(recipe), stream);

  for (int i = 0; i < 200; ++i) {
    const auto now = trainer.step();
    if (now.iteration == 1 || now.iteration == 50 || now.iteration % 100 == 0)
      fmt::print("iteration {:3}  samples {:4}  learning rate {:.4f}  loss {:.1f}\n",
                 now.iteration,
                 now.consumed_samples,
                 now.learning_rate,
                 now.loss);
  }

  // The minimum loss: the second digit may be one or two above the first, all others are certain.
  const auto doubt = std::log(2.0) / double(recipe.model.sequence());
  const double loss = trainer.evaluate(story::counting(recipe), 4).loss;
  fmt::print("at most 0.05 above the minimum loss: {}\n", loss < doubt + 0.05);
}

// Expected output:
//   iteration   1  samples    8  learning rate 0.0000  loss 2.3
//   iteration  50  samples  400  learning rate 0.0082  loss 0.1
//   iteration 100  samples  800  learning rate 0.0058  loss 0.1
//   iteration 200  samples 1600  learning rate 0.0010  loss 0.0
//   at most 0.05 above the minimum loss: true
