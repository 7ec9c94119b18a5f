#include "runtime/job/recipe.hpp"

#include "runtime/model/gpt/gpt.hpp"

namespace troupe::runtime {

model_spec spec_of(const recipe& recipe) {
  return gpt_spec(recipe.model, recipe.own);
}

unit_letters letters_of(const recipe& recipe) {
  return gpt_letters(recipe.model.layers);
}

std::vector<std::string> loss_names(const recipe& recipe) {
  std::vector<std::string> out;
  if (const auto all = losses_of(spec_of(recipe)); !is_only_lm_loss(all))
    for (const auto& one : all)
      out.push_back(one.name);
  return out;
}

}  // namespace troupe::runtime
