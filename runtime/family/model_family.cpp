#include "runtime/family/model_family.hpp"

#include "runtime/data/token_schema.hpp"
#include "runtime/model/chunk.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

std::int64_t count_parameters(model_spec model, bool with_padding) {
  const auto range = all_of(model);
  const chunk whole(std::move(model), range);
  std::int64_t out = 0;
  for (const auto& unit : whole.units())
    for (const auto& x : unit.parameters)
      if (x.tied_to.empty())
        out += with_padding || x.valid_rows < 0 ? x.extents.size() : x.valid_rows * x.extents[1];
  return out;
}

}  // namespace

std::string model_family::letters(const model_description& model) const {
  return model.spec().letters();
}

std::int64_t model_family::parameter_count(const model_description& model) const {
  return count_parameters(model.spec(), false);
}

std::int64_t model_family::padded_parameter_count(const model_description& model) const {
  return count_parameters(model.spec(), true);
}

// Kaplan et al.: "Scaling Laws for Neural Language Models", 2020: 6 operations for each parameter
// and token.
double model_family::training_flops(const model_description& model, double samples) const {
  return 6 * double(parameter_count(model)) * double(model.sequence()) * samples;
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
