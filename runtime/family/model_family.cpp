#include "runtime/family/model_family.hpp"

#include "runtime/family/size_rules.hpp"
#include "runtime/family/text_samples.hpp"
#include "runtime/model/counts.hpp"

namespace troupe::runtime {

unit_letters model_family::letters(const model_description& model) const {
  // `validate` refuses more. A model with two stacks has as many layers in each.
  if (const auto layers = sizes(model).layers; layers > 2 * largest_depth)
    return {{'t', layers, true}};
  return model.spec().letters();
}

std::int64_t model_family::parameter_count(const model_description& model) const {
  return runtime::parameter_count(model.spec());
}

const family_samples& model_family::samples() const {
  return text_samples();
}

model_description model_family::resolve_hub(const model_description& there,
                                            const std::any& /*asked*/,
                                            const given_settings& /*given*/,
                                            const std::string& /*hub*/,
                                            std::vector<std::string>& /*wrong*/) const {
  return there;
}

}  // namespace troupe::runtime
