#include "runtime/job/recipe.hpp"

namespace troupe::runtime {

model_spec spec_of(const recipe& recipe) {
  return recipe.model.spec(recipe.own);
}

unit_letters letters_of(const recipe& recipe) {
  return recipe.model.letters();
}

std::vector<std::string> loss_names(const recipe& recipe) {
  std::vector<std::string> out;
  if (const auto all = losses_of(spec_of(recipe)); !is_only_lm_loss(all))
    for (const auto& one : all)
      out.push_back(one.name);
  return out;
}

}  // namespace troupe::runtime
