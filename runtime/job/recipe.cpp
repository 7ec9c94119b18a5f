#include "runtime/job/recipe.hpp"

#include "runtime/model/layers/experts.hpp"

namespace troupe::runtime {

namespace {

/// So that each pipeline rank can find choices by text.
void give_tokens(model_spec& to) {
  for (auto& unit : to.units)
    if (auto* const layer = unit.module.get_if<layer_spec>())
      for (auto& sublayer : layer->sublayers)
        if (auto* const residual = sublayer.get_if<residual_sublayer>())
          if (auto* const experts = residual->body.get_if<experts_spec>())
            experts->router.reads_tokens = true;
}

}  // namespace

model_spec spec_of(const recipe& recipe) {
  auto out = recipe.model.spec(recipe.own);
  if (!recipe.expert_choices.replay.empty())
    give_tokens(out);
  return out;
}

unit_letters letters_of(const recipe& recipe) {
  return recipe.model.letters();
}

std::vector<loss_spec> losses_of(const recipe& recipe) {
  auto out = losses_of(spec_of(recipe));
  for (auto& x : out)
    if (x.over_replicas)
      x.weight /= double(recipe.batch.data_parallel);
  return out;
}

std::vector<std::string> loss_names(const recipe& recipe) {
  std::vector<std::string> out;
  if (const auto all = losses_of(recipe); !is_only_lm_loss(all))
    for (const auto& one : all)
      out.push_back(one.name);
  return out;
}

}  // namespace troupe::runtime
