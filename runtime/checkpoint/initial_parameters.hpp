// The parameters of a whole model and their initial values, for models that take some of them from
// a checkpoint of another model. Immutable and thread-safe.

#pragma once

#include "runtime/family/model_description.hpp"
#include "runtime/parameters/spec.hpp"
#include "runtime/tensor/shard.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

class initial_parameters {
 public:
  using shard = tensor_shard<std::span<float>>;

  /// `seed`: of the initial values.
  explicit initial_parameters(const model_description& model, std::uint64_t seed = 1234);

  /// Null: the model has no parameter of this name.
  const parameter_spec* find(std::string_view name) const;
  void draw(const parameter_spec& x, const box& part, std::span<float> to) const;

  /// The parameters that `has` denies, in the order of their names.
  std::vector<const parameter_spec*> lacking(
      const std::function<bool(std::string_view)>& has) const;
  /// A sentence about these parameters, which the folder `from` lacks; empty: it has all.
  std::string told(const std::function<bool(std::string_view)>& has, const std::string& from) const;

  /// Fills a parameter that a pretrained model lacks. Throws input_error, with the folder `from`,
  /// unless model_family::begins_anew says that it may.
  void begin(const shard& to, const std::string& from) const;

 private:
  model_description model_;
  std::map<std::string, parameter_spec, std::less<>> parameters_;
  std::uint64_t seed_;
};

}  // namespace troupe::runtime
