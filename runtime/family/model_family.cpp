#include "runtime/family/model_family.hpp"

#include "runtime/data/token_schema.hpp"
#include "runtime/model/counts.hpp"

namespace troupe::runtime {

unit_letters model_family::letters(const model_description& model) const {
  return model.spec().letters();
}

std::int64_t model_family::parameter_count(const model_description& model) const {
  return runtime::parameter_count(model.spec());
}

batch_schema model_family::schema(const model_description& model, bool documents) const {
  return token_schema(model.sequence(), documents);
}

model_description model_family::resolve_hub(const model_description& there,
                                            const std::any& /*asked*/,
                                            const given_settings& /*given*/,
                                            const std::string& /*hub*/,
                                            std::vector<std::string>& /*wrong*/) const {
  return there;
}

}  // namespace troupe::runtime
