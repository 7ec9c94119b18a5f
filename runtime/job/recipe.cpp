#include "runtime/job/recipe.hpp"

namespace troupe::runtime {

model_spec spec_of(const recipe& recipe) {
  return recipe.model.spec(recipe.own);
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
