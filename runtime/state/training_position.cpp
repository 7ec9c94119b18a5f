#include "runtime/state/training_position.hpp"

namespace troupe::runtime {

training_position beginning(const recipe& recipe) {
  training_position out;
  if (recipe.precision == dtype::f16)
    out.scale = first_scale(recipe.scaling);
  return out;
}

}  // namespace troupe::runtime
