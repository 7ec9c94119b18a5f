#include "runtime/job/recipe.hpp"

#include "runtime/model/gpt/gpt.hpp"

namespace troupe::runtime {

model_spec spec_of(const recipe& recipe) {
  return gpt_spec(recipe.model, recipe.own);
}

}  // namespace troupe::runtime
