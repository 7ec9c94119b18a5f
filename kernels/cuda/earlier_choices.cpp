#include "kernels/cuda/earlier_choices.hpp"

namespace troupe::kernels::cuda {

void earlier_choices::give(const std::map<std::string, product_choice>& known, choices_of whose) {
  const std::lock_guard lock(mutex_);
  for (const auto& [product, choice] : known) {
    if (refused_.contains({product, choice.algorithm}))
      continue;
    const auto found = given_.find(product);
    if (found != given_.end() && found->second.whose == choices_of::this_run
        && whose != choices_of::this_run)
      continue;
    given_.insert_or_assign(product, given_choice{choice, whose});
  }
}

std::optional<earlier_choices::given_choice> earlier_choices::find(
    const std::string& product) const {
  const std::lock_guard lock(mutex_);
  const auto found = given_.find(product);
  return found == given_.end() ? std::nullopt : std::optional(found->second);
}

void earlier_choices::replace(const given_choice& earlier, const std::string& why, bool strict) {
  const auto& [choice, whose] = earlier;
  if (strict && whose == choices_of::this_run)
    throw device_failure("the resumed run's algorithm for the product '" + choice.product
                         + "' cannot be used: " + why
                         + "; `checkpoints.strict_identity` requires equal bits: without it "
                           "another algorithm is chosen, and bits may differ");
  const std::lock_guard lock(mutex_);
  given_.erase(choice.product);
  if (refused_.emplace(choice.product, choice.algorithm).second)
    replaced_.push_back({choice, whose, why});
}

bool earlier_choices::was_replaced(const std::string& product, const std::string& algorithm) const {
  const std::lock_guard lock(mutex_);
  return refused_.contains({product, algorithm});
}

std::vector<replaced_choice> earlier_choices::replaced() const {
  const std::lock_guard lock(mutex_);
  return replaced_;
}

}  // namespace troupe::kernels::cuda
