// One pipeline stage: a chunk, its parameters and its optimizer. For the stories of two stages.

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
    rt::initialise(store, seed);  // by names: the cut changes no bit
  }

  void begin_step() { store.zero_gradients(); }

  /// One micro-batch of a step that has so many; the gradient is that of the mean over them.
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
