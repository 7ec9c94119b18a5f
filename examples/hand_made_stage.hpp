// One pipeline stage for the examples: a chunk, its parameters and its optimizer.

#pragma once

#include "runtime/model/stages.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/trainer/reference_trainer.hpp"

#include <memory>

namespace story {

namespace rt = troupe::runtime;

struct stage {
  stage(const rt::recipe& recipe, const rt::chunk_range& range, rt::stream& by)
      : seed(recipe.seed),
        stream(by),
        model(rt::spec_of(recipe), range),
        plan(model, {}),
        store(model.units(), 1, by.pool()),
        optimizer(store, recipe.optimizer, rt::whole_ranges(store), by.pool()) {
    rt::initialise(store, seed);  // values depend on names, not on the cut into stages
  }

  void begin_step() { store.zero_gradients(); }

  /// The passes of one of `microbatches` micro-batches; gradients are those of the mean loss.
  std::unique_ptr<rt::chunk_pass> pass(std::uint64_t step, std::int64_t microbatches) {
    const rt::pass_settings settings{
        .seed = seed, .step = step, .loss_scale = 1 / double(microbatches)};
    return std::make_unique<rt::chunk_pass>(model, plan, stream, store, settings);
  }

  std::uint64_t seed;
  rt::stream& stream;
  rt::chunk model;
  rt::recompute_plan plan;  ///< nothing is recomputed
  rt::resident_store store;
  rt::optimizer_state optimizer;
};

}  // namespace story
